"""Deploy a trained model to an endpoint, on this machine or SageMaker; find, list and delete endpoints."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table

from experiments.running import options as read
from experiments.running.output import print_error, print_line
from models.endpoints.protocol import Echo, Endpoints, EndpointSpec, EndpointState
from reports.formats.terminal import PlainConsole
from state.home import home
from state.regular_files import user_path
from training.contract.errors import EndpointNotFound, InputError, ServiceError, TrainfareError
from training.contract.price import Price

if TYPE_CHECKING:
    from models.trained_model import TrainedModel
    from tracking.server.store import Store


WAIT_SECONDS = 1800.0
RETRY_SECONDS = 30.0
PENDING_NAME = "later"
"""Placeholder for the endpoint's name until the run has been read."""
REMOVED = ("lifetime", "when_over", "max_usd", "max_billable_seconds")
"""Options of earlier versions."""
Result = TypeVar("Result")
COLUMNS = ("endpoint", "service", "model", "status", "since", "USD/hour", "USD", "address")


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
    from models.inference.evaluation import PRECISIONS

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
    folder_name = re.sub(r"[^a-zA-Z0-9]+", "-", folder.resolve().name).strip("-")[:63].strip("-")
    name = fields.get("name") or folder_name or "model"
    return EndpointSpec(
        name=read.read_name("name", name) if "run" not in fields else PENDING_NAME,
        model=folder.resolve(),
        host=fields.get("host", "127.0.0.1"),
        token_file=_token_file(fields, service),
        machine=fields.get("machine", "local"),
        machines=read.read_whole("machines", fields.get("machines", "1"), 1, 100 if service == "sagemaker" else 1),
        replace=read.read_flag(fields, "replace"),
        precision=read.one_of("precision", fields["precision"], PRECISIONS) if "precision" in fields else None,
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
    from models.registry import CHAMPION, GATE_CHECKS, Registry, check, checked_alias, registered_name
    from models.trained_model import model_name, trained_model

    allowed = read.read_choices("allow", fields.get("allow", ""), GATE_CHECKS)
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


def open_service(name: str, aws: Mapping[str, Any], echo: Echo, *, is_read_only: bool = False) -> Endpoints:
    """Return a service. A read-only service can plan a deployment, and changes nothing."""
    if name == "local":
        from models.endpoints.local import LocalEndpoints

        return LocalEndpoints(home())
    from models.endpoints.sagemaker.endpoints import SageMakerEndpoints

    return SageMakerEndpoints(aws, echo, is_read_only=is_read_only)


def search(
    fields: Mapping[str, str], echo: Echo, look: Callable[[Endpoints], Result]
) -> Iterator[tuple[Endpoints, Result]]:
    """Yield the service that the fields name with what `look` returns for it.

    Without a name, these are this machine, and SageMaker if an AWS region is set: an error there becomes a note.
    """
    aws = read.read_aws(fields)
    chosen = read.read_service(fields) or ("sagemaker" if aws else None)
    for name in [chosen] if chosen else read.SERVICES:
        try:
            service = open_service(name, aws, echo)
            yield service, look(service)
        except (InputError, ServiceError) as error:
            if chosen or name == "local":
                raise
            if not isinstance(error, InputError):  # else, no region is set
                echo(f"Note: SageMaker was not searched for endpoints: {error}")


def find_service(name: str, fields: Mapping[str, str], echo: Echo) -> Endpoints:
    """Return the service that has the endpoint `name`; this machine comes first. Raises `EndpointNotFound`."""
    missing: list[str] = []

    def has(service: Endpoints) -> bool:
        try:
            return bool(service.describe(name))
        except EndpointNotFound as error:
            missing.append(str(error))
            return False

    for service, is_found in search(fields, echo, has):
        if is_found:
            return service
    raise EndpointNotFound(" ".join(missing))


def endpoints(fields: Mapping[str, str]) -> int:
    """List the endpoints of this machine, and those with our tags in the AWS account and region."""
    read.check_not_empty(fields)
    states = {
        state: None if state.ended else service.price(state.machine)
        for service, found in search(fields, print_error, lambda service: service.endpoints())
        for state in found
    }
    # A truncated address is useless: print whole addresses if the output is not a terminal.
    PlainConsole(width=300).print(_table(states, datetime.now(UTC)))
    for state in states:
        if state.reason:
            print_line(f"{state.name}: {state.reason}")
    if prices := {f"{price.source}, {price.date}" for price in states.values() if price}:
        print_line(f"USD are those so far, at today's price and machines ({'; '.join(sorted(prices))}); times are UTC.")
    if any(state.service == "sagemaker" for state in states):
        print_line("Endpoints on SageMaker are those of one region: --aws.region lists another.")
    return 0


def _table(states: Mapping[EndpointState, Price | None], now: datetime) -> Table:
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="right" if "USD" in column else "left", overflow="fold")
    for state, price in states.items():
        table.add_row(
            state.name,
            state.service if state.machine == "local" else f"{state.service}, {state.machines} x {state.machine}",
            state.identity,
            state.status,
            f"{state.created:%Y-%m-%d %H:%M}",
            f"{price.usd_per_hour * state.machines:.4g}" if price else "-",
            f"{state.usd(price, now):.2f}" if price else "-",
            state.address or "-",
        )
    return table


def undeploy(fields: Mapping[str, str]) -> int:
    """Delete the endpoint `--endpoint`, or with `--all true` all that `endpoints` lists."""
    read.check_not_empty(fields)
    is_all = read.read_flag(fields, "all")
    if is_all == ("endpoint" in fields):
        raise InputError("undeploy needs either --endpoint NAME or --all true.")
    if not is_all:
        name = read.read_name("endpoint", fields["endpoint"])
        find_service(name, fields, print_line).undeploy(name, print_line)
        return 0
    outcomes: list[bool] = []
    for service, found in search(fields, print_line, lambda service: service.endpoints()):
        for state in found:
            try:
                service.undeploy(state.name, print_line)
                outcomes.append(True)
            except TrainfareError as error:
                print_line(f"error: {error}")
                outcomes.append(False)
    print_line(
        f"Deleted: {outcomes.count(True)}" + (f", not deleted: {outcomes.count(False)}" if False in outcomes else "")
    )
    return 1 if False in outcomes else 0
