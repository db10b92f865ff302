"""Deploy a trained model to an endpoint, on this machine or SageMaker."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from experiments.deployments import arguments as read
from experiments.deployments.endpoint_budget import check_budget, read_budget
from experiments.deployments.interruption import interruptible
from experiments.deployments.known_endpoints import EndpointRecord, open_record
from experiments.running.output import print_line
from models.endpoints.protocol import Endpoints, EndpointSpec, EndpointState
from training.contract.budget import Budget
from training.contract.errors import EndpointNotFound, InputError, TrainfareError
from training.state.home import home
from training.state.regular_files import user_path

if TYPE_CHECKING:
    from models.lookup.trained_model import TrainedModel
    from tracking.server.store import Store

WAIT_SECONDS = 1800.0
RETRY_SECONDS = 30.0
PENDING_NAME = "later"
"""Placeholder for the endpoint's name until the run has been read."""


def deploy(fields: Mapping[str, str]) -> int:
    """Deploy the model of `run`, or of the folder `model`; see `docs/models.md`."""
    spec, record, budget = read_request(fields)
    spec = with_run(fields, spec) if "run" in fields else spec
    with interruptible():
        state = _deploy(spec, replace(record, name=spec.name), budget)
    _print_state(state)
    if budget.is_limited and record.service == "sagemaker":
        print_line(
            "Its budget holds only if a command of trainfare, such as `trainfare endpoints`, runs here at that time."
        )
    return 0


def read_request(fields: Mapping[str, str]) -> tuple[EndpointSpec, EndpointRecord, Budget]:
    """Return the request without the model of a run, its endpoint's record and its budget. Raises `InputError`."""
    read.check_not_empty(fields)
    service = read.read_service(fields) or "local"
    aws = read.read_aws(fields) | {name: fields[name] for name in ("image", "ami") if name in fields}
    spec = read_spec(fields, service)
    if service == "local" and aws:
        raise InputError("--aws.*, --image and --ami need --service sagemaker, but --service is local.")
    if "prices" in aws:
        from training.services.sagemaker.prices import table_price

        table_price(aws["prices"], spec.machine)  # fails before anything is created
    record = EndpointRecord(service=service, name=spec.name, when_over=spec.when_over, aws=aws)
    return spec, record, read_budget(fields)


def _deploy(spec: EndpointSpec, record: EndpointRecord, budget: Budget) -> EndpointState:
    """Deploy and record the endpoint, if it fits into the budget.

    The record is written first: if the command is killed, later commands then know the endpoint and end its lifetime.
    """
    record, service = open_record(record, print_line)
    check_fits(spec, budget, service)
    if spec.lifetime_seconds is not None:
        replace(record, expires=time.time() + spec.lifetime_seconds).save()
    elif not record.path.exists():
        record.save()
    try:
        state = service.deploy(spec, print_line)
    except BaseException:
        _update_record(record, service)
        raise
    record.updated(state).save()
    return state


def check_fits(spec: EndpointSpec, budget: Budget, service: Endpoints) -> None:
    """Raise `InputError` for an endpoint that does not fit into its budget."""
    if budget.is_limited:
        check_budget(spec, budget, service.price(spec.machine), _existing(service, spec.name))


def _existing(service: Endpoints, name: str) -> EndpointState | None:
    try:
        return service.describe(name)
    except EndpointNotFound:
        return None


def _update_record(record: EndpointRecord, service: Endpoints) -> None:
    """Record the endpoint's current state; keep the record unchanged if the service does not answer."""
    try:
        record.updated(service.describe(record.name)).save()
    except EndpointNotFound:
        record.remove()
    except (TrainfareError, OSError, KeyboardInterrupt):
        return


def read_spec(fields: Mapping[str, str], service: str) -> EndpointSpec:
    """Read and check the request; `with_run` adds the model of a run. Raises `InputError`."""
    if ("run" in fields) == ("model" in fields):
        raise InputError("deploy needs either --run (a run id, a job name or a group id) or --model (a folder).")
    machine = _machine(fields, service)
    folder = user_path(fields.get("model", "."), "--model")
    if "model" in fields and not (folder / "config.json").is_file():
        raise InputError(f"--model is '{folder}': it must be a Transformers folder, with a config.json.")
    when_over: Literal["warn", "delete"] = "delete" if _when_over(fields) == "delete" else "warn"
    name = fields.get("name") or _name_of(folder)
    return EndpointSpec(
        name=read.read_name("name", name) if "run" not in fields else PENDING_NAME,
        model=folder.resolve(),
        host=fields.get("host", "127.0.0.1"),
        token_file=_token_file(fields, service),
        machine=machine,
        machines=read.read_whole("machines", fields.get("machines", "1"), 1, 100 if service == "sagemaker" else 1),
        lifetime_seconds=read.read_seconds("lifetime", fields["lifetime"]) if "lifetime" in fields else None,
        when_over=when_over,
        replace=read.read_flag(fields, "replace"),
        precision=_precision(fields),
        wait_seconds=read.read_seconds("wait", fields["wait"]) if "wait" in fields else WAIT_SECONDS,
    )


def _machine(fields: Mapping[str, str], service: str) -> str:
    if service == "local" and fields.get("machine", "local") != "local":
        raise InputError(f"--machine is '{fields['machine']}': --service local runs only on this machine.")
    if service == "sagemaker" and "machine" not in fields:
        raise InputError("--service sagemaker needs --machine, an instance type such as ml.g4dn.xlarge.")
    return fields.get("machine", "local")


def _token_file(fields: Mapping[str, str], service: str) -> Path | None:
    """Return the path of the token's file. Raises `InputError` if the server would not accept host or token."""
    from models.server.access import access
    from models.server.token_file import read_token

    if service == "sagemaker" and (chosen := next((name for name in ("host", "token-file") if name in fields), None)):
        raise InputError(f"--{chosen} needs --service local: SageMaker's endpoints are protected by AWS permissions.")
    path = user_path(fields["token-file"], "--token-file").resolve() if "token-file" in fields else None
    access(fields.get("host", "127.0.0.1"), read_token(path) if path else None)
    return path


def _precision(fields: Mapping[str, str]) -> str | None:
    if "precision" not in fields:
        return None
    from models.loading.precision import PRECISIONS

    return read.one_of("precision", fields["precision"], PRECISIONS)


def _when_over(fields: Mapping[str, str]) -> str:
    if "when_over" in fields and "lifetime" not in fields:
        raise InputError("--when_over needs a lifetime: add --lifetime, such as 2h.")
    default = "delete" if fields.keys() & {"max_usd", "max_billable_seconds"} else "warn"
    return read.one_of("when_over", fields.get("when_over", default), ("warn", "delete"))


def with_run(fields: Mapping[str, str], spec: EndpointSpec) -> EndpointSpec:
    """Return the spec with the run's model filled in and fetched. The model must pass the quality gate.

    Raises `InputError`, `NotGoodEnough` and `TrackingError`.
    """
    from models.logged.model_folder import model_folder
    from tracking.server.store import open_store

    store = open_store(retry_seconds=RETRY_SECONDS, otherwise="Nothing was deployed.", echo=print_line)
    filled, trained = with_trained(fields, spec, store, print_line)
    return replace(filled, model=model_folder(store, trained, home(), print_line))


def with_trained(
    fields: Mapping[str, str], spec: EndpointSpec, store: Store, echo: Callable[[str], None]
) -> tuple[EndpointSpec, TrainedModel]:
    """Return the spec with the run's model filled in, except its folder, and the model. Reads only.

    Raises `InputError`, `NotGoodEnough` and `TrackingError`.
    """
    from models.batch.prediction_run import evaluation_settings
    from models.lookup.trained_model import trained_model
    from models.lookup.versions import model_name
    from models.registry.gate import check, parse_allowed
    from models.registry.registry import CHAMPION, Registry, checked_alias, registered_name

    allowed = parse_allowed(fields.get("allow", ""))
    alias = checked_alias(fields.get("alias", CHAMPION))
    name = read.read_name("name", fields["name"]) if "name" in fields else None
    trained = trained_model(store, fields["run"])
    if trained.chosen:
        echo(f"Winner of group {trained.group}: {trained.chosen}")
    registered = model_name(fields["run"]) or registered_name(trained.experiment_name)
    check(trained, Registry(store).in_use(registered, alias), allowed)
    evaluation = evaluation_settings(store, trained)
    filled = replace(
        spec,
        evaluation=evaluation,
        max_length=evaluation.max_length,
        name=name or read.read_name("name", trained.job_name),
        task=trained.task or None,
        run_id=trained.run_id,
        model_id=trained.model_id,
        artifact_uri=trained.artifact_uri,
        versions=trained.versions,
    )
    return filled, trained


def _name_of(folder: Path) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", folder.resolve().name).strip("-")[:63].strip("-") or "model"


def _print_state(state: EndpointState) -> None:
    print_line(f"Endpoint: {state.name} ({state.service}, {state.status})")
    print_line(f"Address: {state.address}")
    if state.price:
        price = state.price
        print_line(f"Cost: {price.usd_per_hour * state.machines:.4g} USD per hour ({price.source}, {price.date})")
    if state.expires:
        action = "deletes it" if state.when_over == "delete" else "prints a warning"
        print_line(f"Lifetime: until {state.expires:%Y-%m-%d %H:%M} UTC; the next command after that {action}")
    print_line(f'Try it: trainfare predict --endpoint {state.name} --text "..."')
