"""Deploy a trained model to an endpoint, on this machine or SageMaker."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.deployments import arguments as read
from experiments.deployments.existing_endpoints import open_service
from experiments.running.output import print_line
from models.endpoints.protocol import EndpointSpec
from training.contract.errors import InputError
from training.contract.price import Price
from training.state.home import home
from training.state.regular_files import user_path

if TYPE_CHECKING:
    from models.trained_model import TrainedModel
    from tracking.server.store import Store

WAIT_SECONDS = 1800.0
RETRY_SECONDS = 30.0
PENDING_NAME = "later"
"""Placeholder for the endpoint's name until the run has been read."""
REMOVED = ("lifetime", "when_over", "max_usd", "max_billable_seconds")
"""Options of earlier versions."""


def deploy(fields: Mapping[str, str]) -> int:
    """Deploy the model of `run`, or of the folder `model`; see `docs/models.md`."""
    spec, service, aws = read_request(fields)
    spec = with_run(fields, spec) if "run" in fields else spec
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that `deploy` undoes its work
    endpoints = open_service(service, aws, print_line)
    cost = hourly(endpoints.price(spec.machine), spec.machines)
    if service == "sagemaker":
        print_line(f"Cost: {cost}, until it is undeployed")
    state = endpoints.deploy(spec, print_line)
    print_line(f"Endpoint: {state.name} ({state.service}, {state.status})")
    print_line(f"Address: {state.address}")
    options = [f"--{name} {fields[name]}" for name in ("service", "aws.region", "aws.profile") if name in fields]
    words = " ".join(["--endpoint", state.name, *options])
    print_line(f'Try it: trainfare predict {words} --text "..."')
    print_line(f"Delete it: trainfare undeploy {words}" + (f" (it costs {cost})" if service == "sagemaker" else ""))
    return 0


def hourly(price: Price | None, machines: int) -> str:
    """Return the price of some machines by the hour, with its source, in words."""
    if price is None:
        return "an unknown price per hour"
    return f"{price.usd_per_hour * machines:.4g} USD per hour ({price.source}, {price.date})"


def read_request(fields: Mapping[str, str]) -> tuple[EndpointSpec, str, dict[str, Any]]:
    """Return the request without the model of a run, its service and the fields `aws.*`. Raises `InputError`."""
    for name in REMOVED:
        if name in fields:
            raise InputError(
                f"--{name} is no longer an option of deploy: an endpoint exists, and on SageMaker costs money, until "
                f"`trainfare undeploy` deletes it. AWS Budgets watches what it costs."
            )
    read.check_not_empty(fields)
    service = read.read_service(fields) or "local"
    aws = read.read_aws(fields) | {name: fields[name] for name in ("image", "ami") if name in fields}
    spec = read_spec(fields, service)
    if service == "local" and aws:
        raise InputError("--aws.*, --image and --ami need --service sagemaker, but --service is local.")
    if "prices" in aws:
        from training.services.sagemaker.prices import table_price

        table_price(aws["prices"], spec.machine)  # fails before anything is created
    return spec, service, aws


def read_spec(fields: Mapping[str, str], service: str) -> EndpointSpec:
    """Read and check the request; `with_run` adds the model of a run. Raises `InputError`."""
    if ("run" in fields) == ("model" in fields):
        raise InputError("deploy needs either --run (a run id, a job name or a group id) or --model (a folder).")
    if service == "local" and fields.get("machine", "local") != "local":
        raise InputError(f"--machine is '{fields['machine']}': --service local runs only on this machine.")
    if service == "sagemaker" and "machine" not in fields:
        raise InputError("--service sagemaker needs --machine, an instance type such as ml.g4dn.xlarge.")
    if service == "sagemaker" and read.read_flag(fields, "replace"):
        raise InputError(
            "--replace needs --service local: on SageMaker, deploy under another --name and undeploy the old endpoint."
        )
    folder = user_path(fields.get("model", "."), "--model")
    if "model" in fields and not (folder / "config.json").is_file():
        raise InputError(f"--model is '{folder}': it must be a Transformers folder, with a config.json.")
    name = fields.get("name") or _name_of(folder)
    return EndpointSpec(
        name=read.read_name("name", name) if "run" not in fields else PENDING_NAME,
        model=folder.resolve(),
        host=fields.get("host", "127.0.0.1"),
        token_file=_token_file(fields, service),
        machine=fields.get("machine", "local"),
        machines=read.read_whole("machines", fields.get("machines", "1"), 1, 100 if service == "sagemaker" else 1),
        replace=read.read_flag(fields, "replace"),
        precision=_precision(fields),
        wait_seconds=read.read_seconds("wait", fields["wait"]) if "wait" in fields else WAIT_SECONDS,
    )


def _token_file(fields: Mapping[str, str], service: str) -> Path | None:
    """Return the path of the token's file. Raises `InputError` if the server would not accept host or token."""
    from models.server.access import access, read_token

    if service == "sagemaker" and (chosen := next((name for name in ("host", "token-file") if name in fields), None)):
        raise InputError(f"--{chosen} needs --service local: SageMaker's endpoints are protected by AWS permissions.")
    path = user_path(fields["token-file"], "--token-file").resolve() if "token-file" in fields else None
    access(fields.get("host", "127.0.0.1"), read_token(path) if path else None)
    return path


def _precision(fields: Mapping[str, str]) -> str | None:
    if "precision" not in fields:
        return None
    from models.inference.evaluation import PRECISIONS

    return read.one_of("precision", fields["precision"], PRECISIONS)


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
    from models.gate import check, parse_allowed
    from models.registry import CHAMPION, Registry, checked_alias, registered_name
    from models.trained_model import model_name, trained_model

    allowed = parse_allowed(fields.get("allow", ""))
    alias = checked_alias(fields.get("alias", CHAMPION))
    name = read.read_name("name", fields["name"]) if "name" in fields else None
    trained = trained_model(store, fields["run"])
    if trained.chosen:
        echo(f"Winner of group {trained.group}: {trained.chosen}")
    registered = model_name(fields["run"]) or registered_name(trained.experiment_name)
    check(trained, Registry(store).in_use(registered, alias), allowed)
    filled = replace(
        spec,
        evaluation=trained.evaluation,
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
