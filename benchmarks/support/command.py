"""Run our command line with a separate state folder, and read the events of its jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state.home import SLOTS_VARIABLE
from tracking.recording.run_artifacts import ROOT
from training.contract.events import Event, EventReader
from training.contract.failures import Failure, failure_of
from training.services.local.service import LocalService
from training.services.supervision.job_folder import JobFolder


class NoJob(Exception):
    """A command started no job. The message is its output."""


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The end and the events of a job."""

    failure: Failure | None
    """None if the job completed."""
    events: Sequence[Event]

    def first(self, kind: str) -> Mapping[str, Any]:
        """Return the fields of the first event of a kind; empty without one."""
        return next((each.fields for each in self.events if each.kind == kind), {})

    @property
    def metrics(self) -> Mapping[str, Any]:
        metrics: Mapping[str, Any] = self.first("result").get("metrics", {})
        return metrics


@dataclass(frozen=True, kw_only=True)
class CommandRun(Reported):
    """One run of the command line, with its job."""

    job: JobFolder
    billable_seconds: float
    """Seconds from the start of the job's download to the end of its upload."""
    exit_code: int
    output: str


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
    options = [part for name, value in fields.items() for part in (f"--{name}", value)]
    done = subprocess.run(
        [sys.executable, "-m", "experiments", verb, *options],
        cwd=ROOT,
        env={
            **os.environ,
            "TRAINFARE_HOME": str(folder / "home"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
            **({"HF_HUB_OFFLINE": "1"} if offline else {}),
            **({SLOTS_VARIABLE: str(slots)} if slots else {}),
        },
        capture_output=True,
        text=True,
    )
    output = f"{done.stdout}\n{done.stderr}"
    names = {job["TrainingJobName"] for job in service.jobs()} - before
    if not names:
        raise NoJob(output)
    [name] = names
    job, description = JobFolder(Path(service.log_location(name)).parent), service.describe(name)
    events = EventReader().read(job.log.read_text("utf-8", "replace").splitlines())
    has_failed = description["TrainingJobStatus"] != "Completed"
    return CommandRun(
        events=events,
        job=job,
        billable_seconds=float(description.get("BillableSecondsExact", 0.0)),
        failure=failure_of(description, events, job.log_tail()) if has_failed else None,
        exit_code=done.returncode,
        output=output,
    )
