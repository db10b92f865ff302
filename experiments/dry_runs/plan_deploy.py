"""Plan `deploy` in the steps of `experiments.deployments.deploy_model`, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.deployments.deploy_model import read_request, with_trained
from experiments.deployments.existing_endpoints import open_service
from experiments.dry_runs.refusals import Refusals
from experiments.dry_runs.scratch_state import ScratchState
from experiments.planning.command_plan import CommandPlan, EndpointPlan
from models.endpoints.protocol import DeploymentPlan, EndpointSpec
from models.logged.model_folder import folder_of
from tracking.server.store import open_existing_store
from training.contract.errors import InputError
from training.contract.price import Price
from training.state.home import home


def plan_deploy(fields: Mapping[str, str], _: ScratchState) -> CommandPlan:
    """Return the plan of a deployment."""
    refusals, notes = Refusals(), list[str]()
    plan = CommandPlan(verb="deploy", name=fields.get("name", ""), service=fields.get("service", "local"))
    request = refusals.attempt(lambda: read_request(fields))
    if request is None:
        return replace(plan, refusals=refusals.listed)
    spec, name, aws = request
    filled = refusals.attempt(lambda: _filled(fields, spec, notes)) if "run" in fields else spec
    service = refusals.attempt(lambda: open_service(name, aws, notes.append, is_read_only=True))
    if filled and service and (deployment := refusals.attempt(lambda: service.plan(filled))):
        notes += [deployment.note] if deployment.note else []
        endpoint = endpoint_plan(filled, name, fields.get("run"), deployment, service.price(filled.machine))
        plan = replace(plan, endpoint=endpoint, uploads=deployment.uploads, new_bucket=deployment.missing_bucket)
    return replace(
        plan,
        name=filled.name if filled else plan.name,
        refusals=refusals.listed,
        notes=tuple(dict.fromkeys(notes)),
    )


def _filled(fields: Mapping[str, str], spec: EndpointSpec, notes: list[str]) -> EndpointSpec:
    """Return the spec with the run's model, whose folder may not be fetched yet. Raises as `with_run` does."""
    store = open_existing_store(otherwise="Nothing was deployed.")
    if store is None:
        raise InputError(
            f"--run is '{fields['run']}', but the tracking database does not exist yet: train a model first."
        )
    filled, trained = with_trained(fields, spec, store, notes.append)
    return replace(filled, model=folder_of(trained, home()))


def endpoint_plan(
    spec: EndpointSpec, service: str, run: str | None, deployment: DeploymentPlan, price: Price | None
) -> EndpointPlan:
    """Return what a deployment would create, and its price by the hour. Pure."""
    return EndpointPlan(
        name=spec.name,
        service=service,
        model=run or str(spec.model),
        is_fetched=spec.model.is_dir(),
        machine=spec.machine,
        machines=spec.machines,
        image=deployment.image,
        action=deployment.action,
        usd_per_hour=price.usd_per_hour * spec.machines if price else None,
        price_source=f"{price.source}, {price.date}" if price else "",
        requests=deployment.requests,
    )
