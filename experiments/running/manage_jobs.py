"""List jobs of this machine or of SageMaker, stop them, and print their logs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from experiments.running import job_costs
from experiments.running.output import print_line
from experiments.running.stop_jobs import stop_group, stop_job
from reports.formats.terminal import PlainConsole
from training.contract.errors import TrackingError
from training.contract.failures import lacks_capacity, one_line_reason
from training.contract.price import Price
from training.contract.service import Description, Service
from training.services.local.service import LocalService
from training.state.home import home

MAX_DESCRIBED = 50
"""Ended jobs of SageMaker whose costs are listed. Each takes a call."""


def print_jobs(service: str, prices: str | None) -> None:
    """Print a table of the service's jobs; `prices` is a file that replaces AWS's price list."""
    opened = _open_service(service)
    descriptions = _all_jobs(opened)
    known = job_costs.prices(descriptions, job_costs.price_of(service, prices, print_line))
    # A truncated name cannot be passed to `stop`: print whole names, also if the output is not a terminal.
    PlainConsole(width=200).print(_table(descriptions, known))
    if summary := job_costs.total(descriptions, known):
        print_line(summary)
    ended = sum(not job_costs.is_running(each) for each in descriptions)
    if opened.name != "local" and ended > MAX_DESCRIBED:
        print_line(f"Times and costs are shown for the newest {MAX_DESCRIBED} of {ended} ended jobs.")


def stop(service: str, *, name: str | None, group: str | None) -> int:
    """Stop a job or the running jobs of a group, and print their outcomes; return the exit code.

    Jobs of SageMaker that wait for instances start no further attempt.
    """
    opened = _open_service(service)
    # Requests come first, so that no attempt starts after the running jobs were listed.
    last_attempts = _request_stop(name, group) if opened.name != "local" else []
    if group is not None:
        code = stop_group(opened, group)
    else:
        code = max(stop_job(opened, each) for each in last_attempts or [str(name)])
    for each in last_attempts:
        if lacks_capacity(opened.describe(each)):
            print_line(f"{each}: there were no instances for it, and it does not start again")
    return code


def _request_stop(name: str | None, group: str | None) -> Sequence[str]:
    """Record in the runs of jobs that they are to stop. Return the names of their last attempts."""
    from tracking.following.stop_request import request_stop
    from tracking.server.store import open_existing_store

    try:
        store = open_existing_store(otherwise="A job that waits for instances starts again.")
        return request_stop(store, group=group, job_name=name) if store else []
    except TrackingError as error:
        print_line(str(error))
        return []


def print_log(service: str, name: str) -> None:
    """Print the log of a job."""
    opened = _open_service(service)
    opened.describe(name)
    cursor = None
    while (page := opened.logs(name, cursor)).lines:
        # A progress bar rewrites its line: its last state is shown, as a terminal would.
        print_line("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in page.lines))
        cursor = page.cursor


def _open_service(name: str) -> Service:
    if name == "sagemaker":
        from training.services.sagemaker.clients import Clients, account_of
        from training.services.sagemaker.service import SageMakerService

        clients = Clients()
        account_of(clients)  # fails immediately without credentials or network
        return SageMakerService(clients)
    return LocalService(home())


def _all_jobs(service: Service) -> list[Description]:
    """Return the jobs, running ones first.

    SageMaker's list of jobs lacks their machines and billed times, so running and recent jobs are also described.
    """
    if service.name == "local":
        return service.jobs()
    running = [each["TrainingJobName"] for each in service.jobs(running_only=True)]
    ended = [each for each in service.jobs() if each["TrainingJobName"] not in running]
    described = [*running, *(each["TrainingJobName"] for each in ended[:MAX_DESCRIBED])]
    return [*map(service.describe, described), *ended[MAX_DESCRIBED:]]


def _table(descriptions: Sequence[Description], known: dict[str, Price]) -> Table:
    table = Table(box=None, header_style="bold")
    names, statuses = (
        max((len(description[field]) for description in descriptions), default=0)
        for field in ("TrainingJobName", "SecondaryStatus")
    )
    # Only the reason may be cut off.
    table.add_column("job", no_wrap=True, min_width=names)
    table.add_column("status", no_wrap=True, min_width=statuses)
    table.add_column("started", no_wrap=True, min_width=16)
    table.add_column("billable s", no_wrap=True, justify="right")
    table.add_column("USD", no_wrap=True, justify="right")
    table.add_column("reason", overflow="ellipsis", no_wrap=True)
    for description in descriptions:
        table.add_row(
            description["TrainingJobName"],
            description["SecondaryStatus"],
            f"{description['CreationTime'].astimezone():%Y-%m-%d %H:%M}",
            _figure(job_costs.billed_seconds(description), ".0f", description),
            _figure(job_costs.usd(description, known), ".2f", description),
            one_line_reason(str(description.get("FailureReason", ""))),
        )
    return table


def _figure(value: float | None, form: str, description: Description) -> str:
    if value is None:
        return ""
    return f"{value:{form}}{' so far' if job_costs.is_running(description) else ''}"
