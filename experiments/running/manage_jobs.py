"""List jobs of this machine or of SageMaker with their costs, stop them, and print their logs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from experiments.running.output import answer, print_line, shows_text, status_writer
from reports.formats.terminal import PlainConsole
from reports.model.numbers import joined
from training.contract.errors import InputError, TrackingError
from training.contract.failures import lacks_capacity, service_failure
from training.contract.plain_text import counted, duration_text
from training.contract.price import Price, instance_seconds, instances_of, mean_price
from training.contract.service import (
    TERMINAL_STATUSES,
    Description,
    Service,
    billed_so_far,
    instance_count,
    instance_type_of,
)
from training.services.budget import stop_grace_seconds
from training.services.launcher import stop_all
from training.services.registry import SERVICES

MAX_DESCRIBED = 50
"""Ended jobs whose costs are listed, if each takes a call."""
UPLOAD_SECONDS = 60.0
"""Seconds allowed for the upload of what a stopped job saved, after its grace."""


def print_jobs(service: str, prices: str | None) -> None:
    """Print a table of the service's jobs; `prices` is a file that replaces AWS's price list."""
    at = datetime.now(UTC)
    opened = SERVICES[service].open_service()
    descriptions = _all_jobs(opened)
    price_of = SERVICES[service].prices(prices, print_line)
    types = {
        kind
        for each in descriptions
        if billed_seconds(each, at)
        for kind in instances_of(each.get("ResourceConfig", {}))
    }
    known = {each: price for each in sorted(types) if (price := price_of(each))}
    rows = [_fields(each, known, at) for each in descriptions]
    answer({"jobs": rows})
    if not shows_text():
        return
    # A truncated name cannot be passed to `stop`: print whole names, also if the output is not a terminal.
    PlainConsole(width=200).print(_table(rows))
    if summary := total(descriptions, known, at):
        print_line(summary)
    ended = sum(not is_running(each) for each in descriptions)
    if not opened.traits.lists_costs and ended > MAX_DESCRIBED:
        print_line(f"Times and costs are shown for the newest {MAX_DESCRIBED} of {ended} ended jobs.")


def _all_jobs(service: Service) -> list[Description]:
    """Return the jobs, running ones first.

    If the list of jobs lacks their machines and billed times, running and recent jobs are also described.
    """
    if service.traits.lists_costs:
        return service.jobs()
    running = [each["TrainingJobName"] for each in service.jobs(running_only=True)]
    ended = [each for each in service.jobs() if each["TrainingJobName"] not in running]
    described = [*running, *(each["TrainingJobName"] for each in ended[:MAX_DESCRIBED])]
    return [*map(service.describe, described), *ended[MAX_DESCRIBED:]]


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for title, field in (("job", "name"), ("status", "status")):  # only the reason may be cut off
        table.add_column(title, no_wrap=True, min_width=max((len(row[field]) for row in rows), default=0))
    table.add_column("started", no_wrap=True, min_width=16)
    table.add_column("billable s", no_wrap=True, justify="right")
    table.add_column("USD", no_wrap=True, justify="right")
    table.add_column("reason", overflow="ellipsis", no_wrap=True)
    for row in rows:
        so_far = "" if not row["is_running"] else " at least" if row["is_spot"] else " so far"
        table.add_row(
            row["name"],
            row["status"],
            f"{datetime.fromisoformat(row['created']).astimezone():%Y-%m-%d %H:%M}",
            "" if row["billable_seconds"] is None else f"{row['billable_seconds']:.0f}{so_far}",
            "" if row["usd"] is None else f"{row['usd']:.2f}{so_far}",
            row["reason"],
        )
    return table


def _fields(description: Description, known: dict[str, Price], at: datetime) -> dict[str, Any]:
    failure = service_failure(description)
    return {
        "name": description["TrainingJobName"],
        "status": description["SecondaryStatus"],
        "is_running": is_running(description),
        "is_spot": bool(description.get("EnableManagedSpotTraining")),
        "created": description["CreationTime"].isoformat(),
        "instance_type": instance_type_of(description),
        "billable_seconds": billed_seconds(description, at),
        "usd": usd(description, known, at),
        "reason": failure.text if failure else "",
    }


def total(descriptions: Iterable[Description], known: dict[str, Price], at: datetime) -> str:
    """Return a line with the total cost of running and ended jobs, or an empty text if no price is known."""
    costs = {True: list[float](), False: list[float]()}
    for each in descriptions:
        if (cost := usd(each, known, at)) is not None:
            costs[is_running(each)].append(cost)
    words = ((costs[True], "running", " so far"), (costs[False], "ended", ""))
    parts = [f"{len(each)} {word}, {sum(each):.2f} USD{end}" for each, word, end in words if each]
    sources = sorted({f"{price.source}, {price.date}" for price in known.values()})
    return f"{'; '.join(parts)} ({'; '.join(sources)})" if parts else ""


def usd(description: Description, known: dict[str, Price], at: datetime) -> float | None:
    """Return the cost of a job in USD, so far if it runs; None if unknown."""
    seconds, price = billed_seconds(description, at), mean_price(description.get("ResourceConfig", {}), known.get)
    if seconds is None or price is None:
        return None
    return price.usd(instance_seconds(seconds, instance_count(description)))


def billed_seconds(description: Description, at: datetime) -> float | None:
    """Return the billed seconds of each instance of a job, until `at` if it runs; None if they are not known."""
    is_known = is_running(description) and "TrainingStartTime" in description
    return billed_so_far(description, at) if is_known or "BillableTimeInSeconds" in description else None


def is_running(description: Description) -> bool:
    return description["TrainingJobStatus"] not in TERMINAL_STATUSES


def print_log(service: str, name: str) -> None:
    opened = SERVICES[service].open_service()
    opened.describe(name)
    cursor = None
    lines: list[str] = []
    while (page := opened.logs(name, cursor)).lines:
        # A progress bar rewrites its line: its last state is shown, as a terminal would.
        shown = [line.rstrip("\r").rpartition("\r")[2] for line in page.lines]
        cursor = page.cursor
        lines += shown
        if shows_text():
            print_line("\n".join(shown))
    answer({"name": name, "lines": lines})


def stop(service: str, *, name: str | None, group: str | None) -> int:
    """Stop a job or the running jobs of a group, and print their outcomes; return the exit code.

    Jobs of SageMaker that wait for instances start no further attempt.
    """
    opened = SERVICES[service].open_service()
    # Requests come first, so that no attempt starts after the running jobs were listed.
    last_attempts = _request_stop(name, group) if opened.traits.may_lack_instances else []
    if group is not None:
        code = stop_group(opened, group)
    else:
        code = _stop(opened, [opened.describe(each) for each in last_attempts or [str(name)]])
    for each in last_attempts:
        if lacks_capacity(opened.describe(each)):
            print_line(f"{each}: there were no instances for it, and it does not start again")
    return code


def _request_stop(name: str | None, group: str | None) -> Sequence[str]:
    """Record in the runs of jobs that they are to stop. Return the names of their last attempts."""
    from tracking.recording.recorder import request_stop
    from tracking.server.store import open_existing_store

    try:
        store = open_existing_store(otherwise="A job that waits for instances starts again.")
        return request_stop(store, group=group, job_name=name) if store else []
    except TrackingError as error:
        print_line(str(error))
        return []


def stop_group(service: Service, group: str) -> int:
    """Stop all running jobs of a group; return the exit code. Raises `InputError` if the group has no jobs."""
    # The list of all jobs is limited, so running ones are also listed by themselves.
    listed = {each["TrainingJobName"]: each for each in (*service.jobs(), *service.jobs(running_only=True))}
    members = [each for name, each in listed.items() if name.startswith(f"{group}-")]
    if not members:
        raise InputError(f"jobs stop --group {group}: this group has no jobs here.")
    ended = [each for each in members if not is_running(each)]
    if ended:
        outcomes = [f"{count} {outcome}" for outcome, count in Counter(map(_outcome, ended)).most_common()]
        print_line(f"{group}: {counted(len(ended), 'job')} had already ended ({joined(outcomes)}).")
    return _stop(service, [service.describe(each["TrainingJobName"]) for each in members if each not in ended])


def outcome_text(description: Description, *, had_ended: bool) -> str:
    """Return the outcome of a job, such as `stopped after 12 s` or `had already completed`.

    `had_ended` is True for a job that had ended before anybody tried to stop it.
    """
    status = _outcome(description)
    if had_ended:
        return f"had already {'been stopped' if status == 'stopped' else status}"
    if status != "stopped":
        return f"{status} before it could be stopped"
    if "TrainingStartTime" not in description:
        return "stopped before it started"
    seconds = description.get("BillableSecondsExact", description.get("TrainingTimeInSeconds"))
    return "stopped" if seconds is None else f"stopped after {duration_text(float(seconds))}"


def _stop(service: Service, descriptions: Sequence[Description]) -> int:
    """Stop jobs and wait for them. Prints each outcome as soon as it is known. Return 1 if a job has not ended."""
    running = [each for each in descriptions if is_running(each)]
    outcomes: list[dict[str, str]] = []
    answer({"jobs": outcomes})

    def tell(name: str, outcome: str) -> None:
        outcomes.append({"name": name, "outcome": outcome})
        print_line(f"{name}: {outcome}")

    for each in descriptions:
        if each not in running:
            tell(each["TrainingJobName"], outcome_text(each, had_ended=True))
    if not running:
        return 0
    names = [each["TrainingJobName"] for each in running]
    grace_seconds = max(stop_grace_seconds(service.name, each.get("Environment", {})) for each in running)
    stop_all([lambda name=name: service.stop(name) for name in names])  # type: ignore[misc]
    print_line(f"Stopping {counted(len(names), 'job')}. Each job has {grace_seconds:.0f} s to end.")
    show, left, started = status_writer() or (lambda _: None), list(names), time.monotonic()
    while left and time.monotonic() < started + grace_seconds + UPLOAD_SECONDS:
        for name in list(left):
            description = service.describe(name)
            if not is_running(description):
                tell(name, outcome_text(description, had_ended=False))
                left.remove(name)
        if left:
            show(f"waiting for {counted(len(left), 'job')}, {duration_text(time.monotonic() - started)}")
            time.sleep(max(service.pauses_seconds[0], 0.2))
    show("")
    for name in left:
        tell(name, f"still stopping. It ends by itself; `{service.jobs_command} list` shows when.")
    return 1 if left else 0


def _outcome(description: Description) -> str:
    if description["SecondaryStatus"] in ("MaxRuntimeExceeded", "MaxWaitTimeExceeded"):
        return "reached its time limit"
    return str(description["TrainingJobStatus"]).lower()
