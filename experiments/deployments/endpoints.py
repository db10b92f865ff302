"""Deploy a trained model to an endpoint, on this machine or SageMaker; find, list and delete endpoints."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.deployments.services import ENDPOINTS, open_endpoints
from experiments.running import options as read
from experiments.running.output import answer, print_error, print_line, shows_text
from models.endpoints.protocol import Endpoints, EndpointSpec, EndpointState
from reports.formats.terminal import PlainConsole
from state.home import home
from state.regular_files import user_path
from training.contract.errors import InputError, ServiceError, TrainfareError
from training.contract.price import Price
from training.contract.service import Echo
from training.services.registry import DEFAULT, services_with, traits_of

if TYPE_CHECKING:
    from models.trained_model import TrainedModel
    from tracking.server.store import Store


WAIT_SECONDS = 1800.0
RETRY_SECONDS = 30.0
PENDING_NAME = "later"
"""Placeholder for the endpoint's name until the run has been read."""
TYPE, COUNT, IMAGE = "machine.instance_type", "machine.instance_count", "machine.image"
"""Fields that are called as in an experiment."""
COLUMNS = ("endpoint", "service", "model", "status", "since", "USD/hour", "USD", "address")


def deploy(fields: Mapping[str, str]) -> int:
    """Deploy the model of `run`, or of the folder `model`; see `docs/models.md`."""
    spec, service, aws = read_request(fields)
    spec = with_run(fields, spec) if "run" in fields else spec
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that `deploy` undoes its work
    endpoints, is_billed = open_endpoints(service, aws, print_line), traits_of(service).has_prices
    price, cost = endpoints.price(spec.machine), "an unknown price per hour"
    if price:
        cost = f"{price.usd_per_hour * spec.machines:.4g} USD per hour ({price.source}, {price.date})"
    if is_billed:
        print_line(f"Cost: {cost}, until it is undeployed")
    state = endpoints.deploy(spec, print_line)
    answer(_fields(state, price))
    print_line(f"Endpoint: {state.name} ({state.service}, {state.status})")
    print_line(f"Address: {state.address}")
    options = [f"--{name} {fields[name]}" for name in ("service", "aws.region", "aws.profile") if name in fields]
    words = " ".join(["--endpoint", state.name, *options])
    print_line(f'Try it: trainfare predict {words} --text "..."')
    print_line(f"Delete it: trainfare undeploy {words}" + (f" (it costs {cost})" if is_billed else ""))
    return 0


def read_request(fields: Mapping[str, str]) -> tuple[EndpointSpec, str, dict[str, Any]]:
    """Return the checked request without the model of a run, its service and the fields `aws.*`. Raises `InputError`.

    `with_run` adds the model of a run.
    """
    from models.inference.evaluation import PRECISIONS, read_task
    from models.server.access import allowed_hosts, read_token

    read.check_not_empty(fields)
    service = read.read_service(fields, ENDPOINTS) or DEFAULT
    others = {"image": IMAGE, "ami": "ami"}
    aws = read.read_aws(fields) | {key: fields[name] for key, name in others.items() if name in fields}
    if ("run" in fields) == ("model" in fields):
        raise InputError("deploy needs either --run (a run id, a job name or a group id) or --model (a folder).")
    traits = traits_of(service)
    for name in fields:
        is_of_server = name in {"host", "token-file"}
        is_of_aws = name in {IMAGE, "ami"} or name.startswith("aws.")
        if (is_of_server and not traits.runs_here) or (is_of_aws and not traits.reads_aws):
            needed = services_with("runs_here" if is_of_server else "reads_aws")
            raise InputError(f"--{name} needs --service {needed}, but --service is {service}.")
    machine = fields.get(TYPE, traits.instance_type)
    if machine is None:
        raise InputError(f"--service {service} needs --{TYPE}, such as ml.g4dn.xlarge.")
    if traits.instance_type not in (None, machine):
        raise InputError(f"--{TYPE} is '{machine}': --service {service} runs only on {traits.label}.")
    name, folder, host = PENDING_NAME, Path(), fields.get("host", "127.0.0.1")
    if "model" in fields:
        folder = read_model_folder(fields["model"])
        if not traits.runs_here:
            from models.inference.predictor import load_problem

            if reason := load_problem(folder, read_task(folder)):
                raise InputError(f"--model {folder} cannot be served: {reason}.")
        folder_name = re.sub(r"[^a-zA-Z0-9]+", "-", folder.name).strip("-")[:63].strip("-")
        name = read.read_name("endpoint", fields.get("endpoint") or folder_name or "model")
    token_file = user_path(fields["token-file"], "--token-file").resolve() if "token-file" in fields else None
    allowed_hosts(host, read_token(token_file) if token_file else None)
    spec = EndpointSpec(
        name=name,
        model=folder,
        host=host,
        token_file=token_file,
        machine=machine,
        machines=read.read_whole(COUNT, fields.get(COUNT, "1"), 1, 1 if traits.runs_here else 100),
        precision=read.one_of("precision", fields["precision"], PRECISIONS) if "precision" in fields else None,
        wait_seconds=read.read_seconds("timeout", fields["timeout"]) if "timeout" in fields else WAIT_SECONDS,
    )
    return spec, service, aws


def read_model_folder(text: str) -> Path:
    """Return the folder of the option `--model`. Raises `InputError`."""
    folder = user_path(text, "--model")
    if not (folder / "config.json").is_file():
        raise InputError(f"--model is '{folder}': it must be a Transformers folder, with a config.json.")
    return folder.resolve()


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
    name = read.read_name("endpoint", fields["endpoint"]) if "endpoint" in fields else None
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


def search(fields: Mapping[str, str], echo: Echo) -> Iterator[tuple[Endpoints, list[EndpointState]]]:
    """Yield the service that the fields name with its endpoints.

    Without a name, these are all services, as far as an AWS region is set: an error of any but the first is a note.
    """
    aws = read.read_aws(fields)
    chosen = read.read_service(fields, ENDPOINTS)
    for name in [chosen] if chosen else [each for each in ENDPOINTS if traits_of(each).reads_aws or not aws]:
        try:
            service = open_endpoints(name, aws, echo)
            yield service, service.endpoints()
        except (InputError, ServiceError) as error:
            if chosen or aws or name == DEFAULT:
                raise
            if not isinstance(error, InputError):  # else, no region is set
                echo(f"Note: {traits_of(name).label} was not searched for endpoints: {error}")


def named_service(fields: Mapping[str, str], echo: Echo) -> Endpoints:
    """Return the service that the fields name, which is this machine without `service` and `aws.*`."""
    aws = read.read_aws(fields)
    first = next(name for name in ENDPOINTS if traits_of(name).reads_aws or not aws)
    return open_endpoints(read.read_service(fields, ENDPOINTS) or first, aws, echo)


def endpoints(fields: Mapping[str, str]) -> int:
    """List the endpoints of this machine, and those with our tags in the AWS account and region."""
    read.check_not_empty(fields)
    states = {
        state: None if state.ended else service.price(state.machine)
        for service, found in search(fields, print_error)
        for state in found
    }
    answer({"endpoints": [_fields(state, price) for state, price in states.items()]})
    if not shows_text():
        return 0
    # A truncated address is useless: print whole addresses if the output is not a terminal.
    PlainConsole(width=300).print(_table(states, datetime.now(UTC)))
    for state in states:
        if state.reason:
            print_line(f"{state.name}: {state.reason}")
    if prices := {f"{price.source}, {price.date}" for price in states.values() if price}:
        print_line(f"USD are those so far, at today's price and machines ({'; '.join(sorted(prices))}); times are UTC.")
    if any(traits_of(state.service).reads_aws for state in states):
        print_line("Endpoints on SageMaker are listed for one region: --aws.region lists another.")
    return 0


def _fields(state: EndpointState, price: Price | None) -> dict[str, Any]:
    return {
        "endpoint": state.name,
        "service": state.service,
        "status": state.status,
        "model": state.identity,
        "address": state.address,
        "instance_type": state.machine,
        "instance_count": state.machines,
        "created": state.created.isoformat(),
        "usd_per_hour": price.usd_per_hour * state.machines if price else None,
        "usd": state.usd(price, datetime.now(UTC)) if price else None,
        "reason": state.reason,
    }


def _table(states: Mapping[EndpointState, Price | None], now: datetime) -> Table:
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="right" if "USD" in column else "left", overflow="fold")
    for state, price in states.items():
        machines = "" if traits_of(state.service).instance_type else f", {state.machines} x {state.machine}"
        table.add_row(
            state.name,
            f"{state.service}{machines}",
            state.identity,
            state.status,
            f"{state.created:%Y-%m-%d %H:%M}",
            f"{price.usd_per_hour * state.machines:.4g}" if price else "-",
            f"{state.usd(price, now):.2f}" if price else "-",
            state.address or "-",
        )
    return table


def undeploy(fields: Mapping[str, str]) -> int:
    """Delete the endpoint `--endpoint`, or with `--all` all that `endpoints` lists."""
    read.check_not_empty(fields)
    is_all = read.read_flag(fields, "all")
    if is_all == ("endpoint" in fields):
        raise InputError("undeploy needs either --endpoint NAME or --all.")
    if not is_all:
        name = read.read_name("endpoint", fields["endpoint"])
        named_service(fields, print_line).undeploy(name, print_line)
        answer({"deleted": [name], "failed": {}})
        return 0
    deleted: list[str] = []
    failed: dict[str, str] = {}
    for service, found in search(fields, print_line):
        for state in found:
            try:
                service.undeploy(state.name, print_line)
                deleted.append(state.name)
            except TrainfareError as error:
                print_line(f"error: {error}")
                failed[state.name] = str(error)
    answer({"deleted": deleted, "failed": failed})
    print_line(f"Deleted: {len(deleted)}" + (f", not deleted: {len(failed)}" if failed else ""))
    return 1 if failed else 0
