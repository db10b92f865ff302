"""Plan `deploy` in the steps of `experiments.deployments.deploy_model`, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.deployments.deploy_model import check_fits, read_request, with_trained
from experiments.deployments.known_endpoints import EndpointRecord, open_record
from experiments.dry_runs.refusals import Refusals
from experiments.dry_runs.scratch_state import ScratchState
from experiments.planning.command_plan import CommandPlan, EndpointPlan
from models.endpoints.protocol import DeploymentPlan, EndpointSpec
from models.logged.model_folder import folder_of
from tracking.server.store import open_existing_store
from training.contract.errors import InputError
from training.state.home import home


def plan_deploy(fields: Mapping[str, str], _: ScratchState) -> CommandPlan:
    """Return the plan of a deployment."""
    refusals, notes = Refusals(), list[str]()
    plan = CommandPlan(verb="deploy", name=fields.get("name", ""), service=fields.get("service", "local"))
    request = refusals.attempt(lambda: read_request(fields))
    if request is None:
        return replace(plan, refusals=refusals.listed)
    spec, record, budget = request
    filled = refusals.attempt(lambda: _filled(fields, spec, notes)) if "run" in fields else spec
    if filled is None:
        refusals.attempt(lambda: open_record(record, notes.append, is_read_only=True))
        return replace(plan, refusals=refusals.listed, notes=tuple(notes))
    record = replace(record, name=filled.name)
    opened = refusals.attempt(lambda: open_record(record, notes.append, is_read_only=True))
    if opened is None:
        return replace(plan, name=filled.name, refusals=refusals.listed, notes=tuple(dict.fromkeys(notes)))
    service = opened[1]
    refusals.attempt(lambda: check_fits(filled, budget, service))
    deployment = refusals.attempt(lambda: service.plan(filled))
    if deployment is not None:
        notes += [deployment.note] if deployment.note else []
        endpoint = _endpoint(fields, filled, record, deployment)
        plan = replace(plan, endpoint=endpoint, uploads=deployment.uploads, new_bucket=deployment.missing_bucket)
    return replace(plan, name=filled.name, refusals=refusals.listed, notes=tuple(dict.fromkeys(notes)))


def _filled(fields: Mapping[str, str], spec: EndpointSpec, notes: list[str]) -> EndpointSpec:
    """Return the spec with the run's model, whose folder may not be fetched yet. Raises as `with_run` does."""
    store = open_existing_store(otherwise="Nothing was deployed.")
    if store is None:
        raise InputError(
            f"--run is '{fields['run']}', but the tracking database does not exist yet: train a model first."
        )
    filled, trained = with_trained(fields, spec, store, notes.append)
    return replace(filled, model=folder_of(trained, home()))


def _endpoint(
    fields: Mapping[str, str], spec: EndpointSpec, record: EndpointRecord, deployment: DeploymentPlan
) -> EndpointPlan:
    price = deployment.price
    return EndpointPlan(
        name=spec.name,
        service=record.service,
        model=fields.get("run") or str(spec.model),
        is_fetched=spec.model.is_dir(),
        machine=spec.machine,
        machines=spec.machines,
        image=deployment.image,
        action=deployment.action,
        usd_per_hour=price.usd_per_hour * spec.machines if price else None,
        price_source=f"{price.source}, {price.date}" if price else "",
        lifetime_seconds=spec.lifetime_seconds,
        when_over=spec.when_over,
        requests=deployment.requests,
    )
