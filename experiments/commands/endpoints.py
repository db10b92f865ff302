"""The verb `endpoints`: what answers where, since when, until when, and what it has cost so far."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from experiments.commands.undeploy import places
from experiments.deployments import arguments as read
from experiments.deployments.known_endpoints import opened
from experiments.running.output import remark
from models.endpoints.protocol import EndpointState
from training.contract.errors import TrainfareError

FIELDS = ("service",)
COLUMNS = ("endpoint", "service", "model", "status", "since", "lifetime", "USD", "address")


def endpoints(given: Mapping[str, str]) -> int:
    """List the endpoints of this machine, and of SageMaker where it was used from here or is asked for."""
    read.known_only("endpoints", given, FIELDS)
    states: list[EndpointState] = []
    failed: list[TrainfareError] = []
    for place in places(given):
        try:
            _, service = opened(place, remark)
            states += service.endpoints()
        except TrainfareError as refusal:
            failed.append(refusal)
    # An address that is cut cannot be asked: whole ones, also where nobody looks at a terminal.
    Console(width=None if sys.stdout.isatty() else 300).print(_table(states, datetime.now(UTC)))
    for line in _remarks(states):
        print(line)
    for error in failed:
        print("error:", error, file=sys.stderr)
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
    return f"over since {until}" if state.is_over(now) else f"until {until}, then {state.when_over}"


def _remarks(states: Sequence[EndpointState]) -> list[str]:
    """Return what is told below the table: where prices come from, and why endpoints failed."""
    lines = [f"{state.name}: {state.reason}" for state in states if state.reason]
    prices = {f"{state.price.source}, {state.price.date}" for state in states if state.price}
    costs = [usd for state in states if (usd := state.usd_so_far()) is not None]
    if costs:
        lines.append(f"{sum(costs):.2f} USD so far ({'; '.join(sorted(prices))}); times are UTC")
    return lines
