"""The `jobs` verb: what runs on this machine, since when, and how to stop it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from training.errors import InputError, nearest
from training.home import home
from training.services.local import LocalService
from training.services.protocol import TERMINAL_STATUSES, Description, Service

VERBS = ("list", "log", "stop")


def main(arguments: Sequence[str]) -> int:
    """Run `jobs list`, `jobs stop NAME` or `jobs log NAME`."""
    service = LocalService(home())
    match list(arguments) or ["list"]:
        case ["list"]:
            # A name that is cut cannot be given to `stop`: whole names, also where nobody looks at a terminal.
            Console(width=None if sys.stdout.isatty() else 200).print(_table(service.jobs()))
        case ["stop", name]:
            service.stop(name)
            print(f"{name}: {service.describe(name)['TrainingJobStatus']}")
        case ["log", name]:
            _print_log(service, name)
        case [verb, *rest] if verb not in VERBS:
            raise InputError(f"unknown verb 'jobs {verb}': it must be one of {', '.join(VERBS)}.{nearest(verb, VERBS)}")
        case [verb, *rest]:
            raise InputError(f"jobs {verb} {' '.join(rest)}: give {'no name' if verb == 'list' else 'one job name'}.")
    return 0


def _print_log(service: Service, name: str) -> None:
    service.describe(name)
    cursor = None
    while (page := service.logs(name, cursor)).lines:
        print(*page.lines, sep="\n")
        cursor = page.cursor


def _table(descriptions: Sequence[Description]) -> Table:
    table = Table(box=None, header_style="bold")
    longest = max((len(description["TrainingJobName"]) for description in descriptions), default=0)
    table.add_column("job", no_wrap=True, min_width=longest)
    table.add_column("status", no_wrap=True)
    table.add_column("started", no_wrap=True)
    table.add_column("billable s", no_wrap=True, justify="right")
    table.add_column("reason", overflow="ellipsis", no_wrap=True)
    for description in descriptions:
        table.add_row(
            description["TrainingJobName"],
            description["SecondaryStatus"],
            f"{description['CreationTime'].astimezone():%Y-%m-%d %H:%M}",
            _billable(description),
            description.get("FailureReason", "").splitlines()[0] if description.get("FailureReason") else "",
        )
    return table


def _billable(description: Description) -> str:
    seconds = description.get("BillableTimeInSeconds")
    started = description.get("TrainingStartTime")
    if seconds is None and started and description["TrainingJobStatus"] not in TERMINAL_STATUSES:
        return f"{(datetime.now(UTC) - started).total_seconds():.0f} so far"
    return "" if seconds is None else str(seconds)
