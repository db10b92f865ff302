"""Run one training on the local service, kill it at given times, and start it again from its checkpoints."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.contract.events import Event, EventReader
from training.contract.service import TERMINAL_STATUSES, Description, Request
from training.services.local import processes
from training.services.local.job_folder import JobFolder
from training.services.local.service import LocalService

LOOK_SECONDS = 0.02


@dataclass
class Ran:
    """One training with all its starts."""

    starts: list[float] = field(default_factory=list)
    """Billable seconds of each start."""
    lives: list[float] = field(default_factory=list)
    """Seconds after which each start was or would have been killed."""

    events: list[Event] = field(default_factory=list)
    """Events of the last start."""

    @property
    def seconds(self) -> float:
        """Billable seconds of all starts."""
        return sum(self.starts)

    @property
    def interruptions(self) -> int:
        """Number of starts that were killed."""
        return len(self.starts) - 1


def run_killed(service: LocalService, root: Path, request: Request, name: str, lives: Iterator[float]) -> Ran:
    """Run the job of a request under another name, with the lives of its starts in seconds. Exits if it fails."""
    checkpoints = root / "checkpoints" / name
    checkpoints.mkdir(parents=True)
    ran = Ran()
    try:
        while True:
            start = f"{name}-{len(ran.starts)}"
            copied = {**json.loads(json.dumps(request)), "TrainingJobName": start}
            service.create({**copied, "CheckpointConfig": {"S3Uri": checkpoints.as_uri()}})
            ran.lives.append(next(lives))
            description, was_killed = _run(service, root, start, ran.lives[-1])
            ran.starts.append(float(description["BillableSecondsExact"]))
            if not was_killed:
                if description["TrainingJobStatus"] != "Completed":
                    sys.exit(f"error: {start} failed: {description.get('FailureReason')}")
                ran.events = EventReader().read(JobFolder(root / "jobs" / start).lines())
                return ran
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)


def _run(service: LocalService, root: Path, name: str, life_seconds: float) -> tuple[Description, bool]:
    """Wait until the job ends, and kill it when its life is over. Return its description, and whether it was killed."""
    was_killed = False
    while (description := service.describe(name))["TrainingJobStatus"] not in TERMINAL_STATUSES:
        began: Any = description.get("TrainingStartTime")
        if began is not None and not was_killed and time.time() >= began.timestamp() + life_seconds:
            processes.kill_marked(str(root.resolve() / "jobs" / name / "opt" / "ml"))
            was_killed = True
        time.sleep(LOOK_SECONDS)
    return description, was_killed and description["TrainingJobStatus"] != "Completed"
