"""Scripts for tests of services, and functions that wait for a job until a deadline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.support.services.harness import LocalHarness
from training.contract.service import Description
from training.services.launcher import Follower, Job, Update
from training.services.supervision.job_folder import JobFolder

DEADLINE_SECONDS = 900

EMITS_EVENTS = """
    import json, sys, time
    for seq in range(20):
        event = {"event": "metric", "seq": seq, "time": time.time(), "step": seq}
        print("trainfare-event " + json.dumps(event), flush=True)
        time.sleep(0.02)
"""

RUNS_UNTIL_STOPPED = """
    import time
    print("running", flush=True)
    time.sleep(300)
"""


def of_job(lines: Iterable[str]) -> list[str]:
    """Return the lines of a log without those of the shells and the toolkit in AWS's images.

    bash reports that it has no terminal, and the shell of the toolkit that its command was killed. The toolkit prints a
    blank line if it reads the end of a line by itself: Python writes that separately (`PYTHONUNBUFFERED`).
    """
    shells = ("bash: ", "Killed", "Terminated")
    return [line for line in lines if line.strip() and not line.startswith(shells)]


def follow(job: Job, sleep: Callable[[float], object] = time.sleep) -> Iterator[Update]:
    """Yield updates until the job has ended and its whole log was read."""
    follower = Follower(job)
    while not follower.ended:
        if update := follower.look():
            yield update
        if not follower.ended:
            sleep(follower.pause_seconds)


def ended(job: Job) -> tuple[Description, list[str]]:
    """Follow the job to its end, and return its description and the lines of its log. Fail after the deadline."""
    deadline, lines, description = time.monotonic() + DEADLINE_SECONDS, [], {}
    for update in follow(job):
        lines = [*([] if update.is_whole else lines), *update.lines]
        description = update.description or description
        assert time.monotonic() < deadline, (description, lines)
    return description, of_job(lines)


def event_numbers(job: Job) -> list[int]:
    """Follow the job to its end, and return the sequence numbers of its events in the order of arrival."""
    numbers: list[int] = []
    for update in follow(job):
        numbers = [*([] if update.is_whole else numbers), *(event.seq for event in update.events)]
    return numbers


def running(job: Job, line: str = "running") -> None:
    """Wait until the job has printed `line`."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while line not in job.service.logs(job.name).lines:
        assert time.monotonic() < deadline, job.describe()
        time.sleep(job.service.pauses_seconds[0])


def statuses(description: Description) -> list[str]:
    return [each["Status"] for each in description["SecondaryStatusTransitions"] if each["Status"] != "Pending"]


def until(condition: Callable[[], bool], seconds: float = 300, pause_seconds: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause_seconds)


def until_unsupervised(home: Path) -> None:
    """Wait until the supervisors of all jobs in a state folder have exited.

    A supervisor still deletes the file that it has reserved after it has written its job's final state.
    """
    jobs = [JobFolder(state.parent) for state in (home / "jobs").glob("*/state.json")]
    until(lambda: not any(job.is_supervised() for job in jobs))


def supervisor_pid(harness: LocalHarness, name: str = "job") -> int:
    return int(json.loads((harness.job_folder(name) / "state.json").read_text())["SupervisorPid"])
