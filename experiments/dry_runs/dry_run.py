"""Plan a command, print the plan, and return the exit code that the command would have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.deployments.endpoints import read_request, with_trained
from experiments.deployments.services import open_endpoints
from experiments.dry_runs.plan_jobs import plan_jobs
from experiments.dry_runs.scratch_state import ScratchState, scratch_state
from experiments.dry_runs.text import json_text, print_plan
from experiments.planning.command_plan import CommandPlan, EndpointPlan
from experiments.running.options import one_of
from experiments.running.output import print_line
from models.endpoints.protocol import EndpointSpec
from models.logged.model_folder import folder_of
from state.home import home
from tracking.server.store import open_existing_store
from training.contract.errors import InputError
from training.services.registry import DEFAULT


def dry_run(verb: str, fields: Mapping[str, str]) -> int:
    """Print the plan of a verb with these fields, and change nothing.

    Returns 0 if the command would start, else the exit code with which it would end.
    """
    fields = dict(fields)
    chosen = one_of("format", fields.pop("format", "text"), ("text", "json"))
    with scratch_state(home()) as state:
        plan = plan_deploy(fields, state) if verb == "deploy" else plan_jobs(verb, fields, state)
    if chosen == "json":
        print_line(json_text(plan))
    else:
        print_plan(plan)
    return plan.exit_code


def plan_deploy(fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a deployment, in the steps of `experiments.deployments.endpoints`."""
    plan = CommandPlan(verb="deploy", name=fields.get("name", ""), service=fields.get("service", DEFAULT))
    if request := state.attempt(lambda: read_request(fields)):
        spec, name, aws = request
        filled = state.attempt(lambda: _filled(fields, spec, state)) if "run" in fields else spec
        service = state.attempt(lambda: open_endpoints(name, aws, state.echo, is_read_only=True))
        if filled and service and (deployment := state.attempt(lambda: service.plan(filled))):
            state.notes.extend([deployment.note] if deployment.note else [])
            price = service.price(filled.machine)
            endpoint = EndpointPlan(
                name=filled.name,
                service=name,
                model=fields.get("run") or str(filled.model),
                is_fetched=filled.model.is_dir(),
                machine=filled.machine,
                machines=filled.machines,
                image=deployment.image,
                action=deployment.action,
                usd_per_hour=price.usd_per_hour * filled.machines if price else None,
                price_source=f"{price.source}, {price.date}" if price else "",
                requests=deployment.requests,
            )
            plan = replace(plan, endpoint=endpoint, uploads=deployment.uploads, new_bucket=deployment.missing_bucket)
        plan = replace(plan, name=filled.name if filled else plan.name)
    return replace(plan, refusals=tuple(state.refused.values()), notes=tuple(dict.fromkeys(state.notes)))


def _filled(fields: Mapping[str, str], spec: EndpointSpec, state: ScratchState) -> EndpointSpec:
    """Return the spec with the run's model, whose folder may not be fetched yet. Raises as `with_run` does."""
    store = open_existing_store(otherwise="Nothing was deployed.")
    if store is None:
        raise InputError(
            f"--run is '{fields['run']}', but the tracking database does not exist yet: train a model first."
        )
    filled, trained = with_trained(fields, spec, store, state.echo)
    return replace(filled, model=folder_of(trained, home()))
