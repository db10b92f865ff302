"""List endpoints with their status, lifetime and cost so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.table import Table

from experiments.deployments import arguments as read
from experiments.deployments.known_endpoints import open_record
from experiments.deployments.undeploy_model import locations
from experiments.running.output import print_error, print_line
from models.endpoints.protocol import EndpointState
from reports.formats.terminal import PlainConsole
from training.contract.errors import TrainfareError

COLUMNS = ("endpoint", "service", "model", "status", "since", "lifetime", "USD", "address")


def endpoints(fields: Mapping[str, str]) -> int:
    """List the endpoints of this machine, and those on SageMaker if `--service` or a record names it."""
    read.check_not_empty(fields)
    states: list[EndpointState] = []
    failed: list[TrainfareError] = []
    for location in locations(fields):
        try:
            _, service = open_record(location, print_error)
            states += service.endpoints()
        except TrainfareError as refusal:
            failed.append(refusal)
    # A truncated address is useless: print whole addresses if the output is not a terminal.
    PlainConsole(width=300).print(_table(states, datetime.now(UTC)))
    for line in _lines_below(states):
        print_line(line)
    for error in failed:
        print_error(f"error: {error}")
    return failed[0].exit_code if failed else 0


def _table(states: Sequence[EndpointState], now: datetime) -> Table:
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column == "USD" else "left", overflow="fold")
    for state in states:
        usd = state.usd_so_far(now)
        table.add_row(
            state.name,
            state.service if state.machine == "local" else f"{state.service}, {state.machines} x {state.machine}",
            state.identity,
            state.status,
            f"{state.created:%Y-%m-%d %H:%M}",
            _lifetime(state, now),
            "-" if usd is None else f"{usd:.2f}",
            state.address or "-",
        )
    return table


def _lifetime(state: EndpointState, now: datetime) -> str:
    if state.expires is None:
        return "-"
    until = f"{state.expires:%Y-%m-%d %H:%M}"
    return f"ended {until}" if state.is_over(now) else f"until {until}, then {state.when_over}"


def _lines_below(states: Sequence[EndpointState]) -> list[str]:
    """Return the lines below the table: reasons of failures, total cost and the source of prices."""
    lines = [f"{state.name}: {state.reason}" for state in states if state.reason]
    prices = {f"{state.price.source}, {state.price.date}" for state in states if state.price}
    costs = [usd for state in states if (usd := state.usd_so_far()) is not None]
    if costs:
        lines.append(f"{sum(costs):.2f} USD so far ({'; '.join(sorted(prices))}); times are UTC")
    return lines
