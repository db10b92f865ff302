"""Find, list and delete existing endpoints: the verbs `endpoints` and `undeploy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.table import Table

from experiments.deployments import arguments as read
from experiments.running.output import print_error, print_line
from models.endpoints.protocol import Echo, Endpoints, EndpointState
from reports.formats.terminal import PlainConsole
from training.contract.errors import EndpointNotFound, InputError, ServiceError, TrainfareError
from training.contract.price import Price
from training.state.home import home

Result = TypeVar("Result")
COLUMNS = ("endpoint", "service", "model", "status", "since", "USD/hour", "USD", "address")


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
