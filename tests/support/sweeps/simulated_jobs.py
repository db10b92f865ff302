"""Simulated jobs that run by the wall clock. They are files that any process may read, so they outlive their creator.

A job's behaviour is fixed at its creation: its end, its outcome and its evaluations. A name is created once, and every
creation adds a line to a file.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from judging.deterministic_failures import Death, Moment
from sweeps.search_space import Point
from sweeps.trials import CurvePoint, TrialOutcome
from training.contract.failures import Failure

PAUSE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """Behaviour of a job that nobody stops."""

    seconds: float
    """Billable seconds from its creation to its end."""
    curve: tuple[tuple[float, int, float], ...] = ()
    """(seconds since its creation, samples, quality) of each evaluation."""
    failure: tuple[str, str] | None = None
    death: tuple[str, Moment] | None = None
    """Exception of which the job dies, and when."""
    reached: bool | None = None
    usd_per_second: float | None = 0.01
    steady_samples_per_second: float = 100.0


class SimulatedService:
    """Service whose jobs are files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def create(self, name: str, behaviour: Behaviour) -> bool:
        """Create a job. Return False if a job of this name exists."""
        return self._write(f"{name}.json", {"created": time.time(), **asdict(behaviour)})

    def stop(self, name: str) -> None:
        """End the job now."""
        self._write(f"{name}.stopped", time.time())

    def read(self, name: str) -> dict[str, Any]:
        """Return the job's fixed behaviour, with the time of its end."""
        job: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        job["ends"] = job["created"] + job["seconds"]
        stopped = self.folder / f"{name}.stopped"
        if stopped.exists() and (at := json.loads(stopped.read_text())) < job["ends"]:
            job |= {"ends": at, "failure": ("Stopped", "somebody asked"), "reached": False}
        return job

    @property
    def names(self) -> list[str]:
        """All jobs."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    @property
    def creations(self) -> Counter[str]:
        """Number of creations of each job, as recorded by its creators."""
        creations = self.folder / "creations.txt"
        return Counter(creations.read_text().split()) if creations.exists() else Counter()

    @property
    def billable_instance_seconds(self) -> float:
        """Billable seconds of all jobs together."""
        return sum(min(time.time(), job["ends"]) - job["created"] for job in map(self.read, self.names))

    def running(self) -> list[str]:
        """Names of the jobs that have not ended."""
        return [name for name in self.names if self.read(name)["ends"] > time.time()]

    def most_at_once(self) -> int:
        """Return the most jobs that ever ran at a time."""
        jobs = [self.read(name) for name in self.names]
        return max(sum(one["created"] <= at["created"] < one["ends"] for one in jobs) for at in jobs)

    def _write(self, name: str, content: Any) -> bool:
        draft = self.folder / f".{os.getpid()}-{time.monotonic_ns()}"
        draft.write_text(json.dumps(content))
        try:
            os.link(draft, self.folder / name)  # whole or not at all, and once
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        if name.endswith(".json"):
            with (self.folder / "creations.txt").open("a") as creations:
                creations.write(name.removesuffix(".json") + "\n")
        return True


class SimulatedRunning:
    """A job that is followed."""

    def __init__(self, service: SimulatedService, name: str) -> None:
        self.job_name = name
        self.due = 0.0
        self._service = service

    def look(self) -> TrialOutcome | None:
        self.due = time.monotonic() + PAUSE_SECONDS
        job = self._service.read(self.job_name)
        if job["ends"] > time.time():
            return None
        seconds, curve = job["ends"] - job["created"], self.curve
        price = job["usd_per_second"]
        return TrialOutcome(
            failure=Failure(*job["failure"]) if job["failure"] else None,
            death=Death(exception=job["death"][0], moment=job["death"][1]) if job["death"] else None,
            billable_instance_seconds=seconds,
            usd=None if price is None else price * seconds,
            samples=curve[-1].samples if curve else 0,
            steady_samples_per_second=job["steady_samples_per_second"],
            quality=curve[-1].value if curve else float("nan"),
            reached=job["reached"],
            run_id=f"run-{self.job_name}",
        )

    @property
    def curve(self) -> tuple[CurvePoint, ...]:
        job = self._service.read(self.job_name)
        elapsed = min(time.time(), job["ends"]) - job["created"]
        return tuple(
            CurvePoint(samples=samples, value=value, billable_instance_seconds=seconds)
            for seconds, samples, value in job["curve"]
            if seconds <= elapsed + 1e-6
        )

    @property
    def billable_instance_seconds(self) -> float:
        job = self._service.read(self.job_name)
        return float(min(time.time(), job["ends"]) - job["created"])

    def stop(self) -> None:
        self._service.stop(self.job_name)

    def close(self) -> None:
        pass


@dataclass
class SimulatedRunner:
    """Starter of simulated jobs, each with the behaviour of its point."""

    service: SimulatedService
    behaviour: Callable[[str, Point], Behaviour]
    ends: dict[str, str] = field(default_factory=dict)

    def job_name(self, compiler: str, point: Point) -> str:
        return f"job-{compiler}-{point.batch_size}-{point.multiplier:g}"

    def start(self, compiler: str, point: Point, trial_number: int) -> SimulatedRunning | None:
        name = self.job_name(compiler, point)
        self.service.create(name, self.behaviour(compiler, point))
        return SimulatedRunning(self.service, name)

    def conclude(self, job_name: str, end: str) -> None:
        """Record the trial's `end` beside the job."""
        self.ends[job_name] = end
