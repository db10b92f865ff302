"""Run one training on the local service, kill it at given times, and start it again from its checkpoints.

All times are CPU seconds of the job's processes. On a machine with other work, its wall-clock seconds would mostly
measure the others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from training.contract.events import Event, EventReader
from training.contract.service import TERMINAL_STATUSES, Request
from training.services.local import processes
from training.services.local.job_folder import JobFolder
from training.services.local.service import LocalService

LOOK_SECONDS = 0.05
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Ran:
    """One training with all its starts."""

    starts: list[float] = field(default_factory=list)
    """CPU seconds of each start."""
    lives: list[float] = field(default_factory=list)
    """CPU seconds after which each start was or would have been killed."""
    clock: list[tuple[float, float]] = field(default_factory=list)
    """Time since the epoch and CPU seconds, at each look at the last start."""
    events: list[Event] = field(default_factory=list)
    """Events of the last start."""

    @property
    def seconds(self) -> float:
        """CPU seconds of all starts."""
        return sum(self.starts)

    @property
    def interruptions(self) -> int:
        """Number of starts that were killed."""
        return len(self.starts) - 1

    def at(self, time_seconds: float) -> float:
        """Return the CPU seconds of the last start at a time since the epoch."""
        times, seconds = zip(*self.clock, strict=True)
        return float(np.interp(time_seconds, times, seconds))


def run_killed(service: LocalService, root: Path, request: Request, name: str, lives: Iterator[float]) -> Ran:
    """Run the job of a request under another name, with these lives of its starts. Exits if the job fails."""
    checkpoints = root / "checkpoints" / name
    checkpoints.mkdir(parents=True)
    ran, was_killed = Ran(), True
    try:
        while was_killed:
            start = f"{name}-{len(ran.starts)}"
            service.create({**request, "TrainingJobName": start, "CheckpointConfig": {"S3Uri": checkpoints.as_uri()}})
            ran.lives.append(next(lives))
            was_killed = _run(service, root, start, ran)
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)
    ran.events = EventReader().read(JobFolder(root / "jobs" / start).lines())
    return ran


def _run(service: LocalService, root: Path, name: str, ran: Ran) -> bool:
    """Wait until the job ends, and kill it when its life is over. Return whether it was killed."""
    mark, ran.clock = str(root.resolve() / "jobs" / name / "opt" / "ml"), [(time.time(), 0.0)]
    was_killed = False
    while (description := service.describe(name))["TrainingJobStatus"] not in TERMINAL_STATUSES:
        used = max(ran.clock[-1][1], cpu_seconds(mark))
        ran.clock.append((time.time(), used))
        if used >= ran.lives[-1] and not was_killed:
            processes.kill_marked(mark)
            was_killed = True
        time.sleep(LOOK_SECONDS)
    ran.starts.append(ran.clock[-1][1])
    is_complete = description["TrainingJobStatus"] == "Completed"
    if not is_complete and not was_killed:
        sys.exit(f"error: {name} failed: {description.get('FailureReason')}")
    return not is_complete


def cpu_seconds(mark: str) -> float:
    """Return the CPU seconds of the marked processes and of their children that have ended."""
    total = 0
    for process in processes.marked_processes(mark):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime: see proc(5)
    return total / TICKS_PER_SECOND
