"""Run our command line with a separate state folder, and read the events of its jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracking.recording.run_description import ROOT
from training.contract.events import Event, EventReader
from training.contract.failures import failure_of
from training.services.local.job_folder import JobFolder
from training.services.local.service import LocalService
from training.state.slots_folder import VARIABLE


class NoJob(Exception):
    """A command started no job. The message is its output."""


@dataclass(frozen=True)
class CommandRun:
    """One run of the command line, with its job."""

    wall_seconds: float
    started_at: float
    """Start time of the command, seconds since the epoch."""
    events: list[Event]
    """The job's events."""
    job: JobFolder
    """The job's folder, with its request."""
    billable_seconds: float
    """Seconds from the start of the job's download to the end of its upload."""
    failure: tuple[str, str] | None
    """Class and reason of the job's failure; None if it completed."""
    exit_code: int
    """Exit code of the command."""
    output: str
    """Standard output and errors of the command."""

    def result(self) -> Mapping[str, Any]:
        """Return the metrics of the job's result."""
        metrics: Mapping[str, Any] = next(e for e in self.events if e.kind == "result").fields["metrics"]
        return metrics

    def first(self, kind: str) -> Event:
        """Return the first event of a kind."""
        return next(e for e in self.events if e.kind == kind)


def train(folder: Path, fields: Mapping[str, str], verb: str = "train") -> CommandRun:
    """Run a command that starts one job, with state and tracking database under `folder`. Wait until the job ends.

    Exits if it fails.
    """
    try:
        run = attempt(folder, fields, verb)
    except NoJob as error:
        sys.exit(f"error: `{verb}` started no job:\n{error}")
    if run.failure or run.exit_code:
        sys.exit(f"error: `{verb}` failed:\n{run.output}")
    return run


def attempt(
    folder: Path, fields: Mapping[str, str], verb: str = "train", *, offline: bool = True, slots: Path | None = None
) -> CommandRun:
    """Run such a command. Its job may fail. Raises `NoJob` if the command started none.

    `offline` keeps it from the Hub. With a folder `slots`, the job does not wait for devices that other jobs use.
    """
    service = LocalService(folder / "home")
    before = {job["TrainingJobName"] for job in service.jobs()}
    started_at, started = time.time(), time.perf_counter()
    done = subprocess.run(
        _command(verb, fields),
        cwd=ROOT,
        env={**environment_of(folder, offline), **({VARIABLE: str(slots)} if slots else {})},
        capture_output=True,
        text=True,
    )
    wall_seconds = time.perf_counter() - started
    output = f"{done.stdout}\n{done.stderr}"
    names = {job["TrainingJobName"] for job in service.jobs()} - before
    if not names:
        raise NoJob(output)
    [name] = names
    job, description = JobFolder(Path(service.log_location(name)).parent), service.describe(name)
    events = EventReader().read(job.lines())
    has_failed = description["TrainingJobStatus"] != "Completed"
    return CommandRun(
        wall_seconds=wall_seconds,
        started_at=started_at,
        events=events,
        job=job,
        billable_seconds=float(description.get("BillableSecondsExact", 0.0)),
        failure=failure_of(description, events, job.log_tail()) if has_failed else None,
        exit_code=done.returncode,
        output=output,
    )


def compare(folder: Path, fields: Mapping[str, str]) -> str:
    """Run a comparison with state and tracking database under `folder`, show its output, and return its group's id.

    Exits if the command did not open a group. The caller has to check for failed jobs.
    """
    group = ""
    with subprocess.Popen(
        _command("compare", fields), cwd=ROOT, env=environment_of(folder), stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            print(f"  {line}", end="", flush=True)
            if line.startswith(("Running ", "Resuming ")):
                group = line.split(": ")[0].rsplit(" ", 1)[-1]
    if not group:
        sys.exit("error: `compare` did not start any job; see its output above")
    return group


def _command(verb: str, fields: Mapping[str, str]) -> list[str]:
    options = [part for name, value in fields.items() for part in (f"--{name}", value)]
    return [sys.executable, "-m", "experiments", verb, *options]


def environment_of(folder: Path, offline: bool = True) -> dict[str, str]:
    """Return this process's environment, with state and tracking database under `folder`."""
    return {
        **os.environ,
        "TRAINFARE_HOME": str(folder / "home"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        **({"HF_HUB_OFFLINE": "1"} if offline else {}),
    }
