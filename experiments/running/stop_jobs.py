"""Stop jobs, wait until they have ended, and print the outcome of each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from experiments.running.output import print_line, status_writer
from reports.model.numbers import counted, joined
from training.contract.budget import GRACE_SECONDS, GRACE_VARIABLE
from training.contract.errors import InputError
from training.contract.plain_text import duration_text
from training.contract.service import TERMINAL_STATUSES, Description, Service
from training.services.launcher import stop_all

UPLOAD_SECONDS = 60.0
"""Seconds allowed for the upload of what a stopped job saved, after its grace."""
STILL_STOPPING = 1
"""Exit code if a job has not ended in time."""


def stop_job(service: Service, name: str) -> int:
    """Stop one job; return the exit code."""
    return _stop(service, [service.describe(name)])


def stop_group(service: Service, group: str) -> int:
    """Stop all running jobs of a group; return the exit code. Raises `InputError` if the group has no jobs."""
    # The list of all jobs is limited, so running ones are also listed by themselves.
    listed = {each["TrainingJobName"]: each for each in (*service.jobs(), *service.jobs(running_only=True))}
    members = [each for name, each in listed.items() if name.startswith(f"{group}-")]
    if not members:
        raise InputError(f"jobs stop --group {group}: this group has no jobs here.")
    ended = [each for each in members if each["TrainingJobStatus"] in TERMINAL_STATUSES]
    running = [service.describe(each["TrainingJobName"]) for each in members if each not in ended]
    if ended:
        print_line(f"{group}: {counted(len(ended), 'job')} had already ended ({_counts(ended)}).")
    return _stop(service, running)


def outcome_text(description: Description, *, had_ended: bool) -> str:
    """Return the outcome of a job, such as `stopped after 12 s` or `had already completed`.

    `had_ended` is True for a job that had ended before anybody tried to stop it.
    """
    status, seconds = _outcome(description), _seconds(description)
    if had_ended:
        return f"had already {'been stopped' if status == 'stopped' else status}"
    if status == "stopped":
        return "stopped before it started" if seconds is None else f"stopped after {duration_text(seconds)}"
    return f"{status} before it could be stopped"


def _stop(service: Service, descriptions: Sequence[Description]) -> int:
    """Stop jobs and wait for them. Prints each outcome as soon as it is known."""
    running = []
    for each in descriptions:
        if each["TrainingJobStatus"] in TERMINAL_STATUSES:
            print_line(f"{each['TrainingJobName']}: {outcome_text(each, had_ended=True)}")
        else:
            running.append(each)
    if not running:
        return 0
    names = [each["TrainingJobName"] for each in running]
    grace_seconds = max(_grace_seconds(service, each) for each in running)
    stop_all([lambda name=name: service.stop(name) for name in names])  # type: ignore[misc]
    print_line(f"Stopping {counted(len(names), 'job')}. Each job has {grace_seconds:.0f} s to end.")
    try:
        left = _wait(service, names, grace_seconds + UPLOAD_SECONDS)
    except KeyboardInterrupt as end:
        end.add_note("The jobs stop by themselves.")
        raise
    for name in left:
        print_line(f"{name}: still stopping. It ends by itself; `{service.jobs_command} list` shows when.")
    return STILL_STOPPING if left else 0


def _wait(service: Service, names: Iterable[str], limit_seconds: float) -> list[str]:
    """Print the outcome of each job when it ends. Return the names of those that have not ended in time."""
    show, left, started = status_writer(), list(names), time.monotonic()
    while left and time.monotonic() < started + limit_seconds:
        for name in list(left):
            description = service.describe(name)
            if description["TrainingJobStatus"] in TERMINAL_STATUSES:
                print_line(f"{name}: {outcome_text(description, had_ended=False)}")
                left.remove(name)
        if left:
            _show(show, f"waiting for {counted(len(left), 'job')}, {duration_text(time.monotonic() - started)}")
            time.sleep(max(service.pauses_seconds[0], 0.2))
    _show(show, "")
    return left


def _show(show: Callable[[str], None] | None, text: str) -> None:
    if show:
        show(text)


def _outcome(description: Description) -> str:
    if description["SecondaryStatus"] in ("MaxRuntimeExceeded", "MaxWaitTimeExceeded"):
        return "reached its time limit"
    return str(description["TrainingJobStatus"]).lower()


def _seconds(description: Description) -> float | None:
    """Return the billed time of a job that has ended; None if it did not start."""
    if "TrainingStartTime" not in description:
        return None
    seconds = description.get("BillableSecondsExact", description.get("TrainingTimeInSeconds"))
    return None if seconds is None else float(seconds)


def _grace_seconds(service: Service, description: Description) -> float:
    """Return the seconds between SIGTERM and SIGKILL: a variable of a local job may change them."""
    if service.name != "local":
        return GRACE_SECONDS
    return float(description.get("Environment", {}).get(GRACE_VARIABLE, GRACE_SECONDS))


def _counts(descriptions: Sequence[Description]) -> str:
    """Return the number of jobs by outcome, such as `2 completed and 1 failed`."""
    counts = Counter(_outcome(each) for each in descriptions)
    return joined([f"{count} {outcome}" for outcome, count in counts.most_common()])
