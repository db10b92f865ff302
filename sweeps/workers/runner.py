"""Protocol between a sweep and its jobs: real jobs (`trial_jobs.py`), or recorded ones in a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint, TrialOutcome


class Running(Protocol):
    """Running job of a trial."""

    job_name: str

    @property
    def due(self) -> float:
        """Time of the next `look`, in seconds of the monotonic clock."""

    def look(self) -> TrialOutcome | None:
        """Record new events. Return the outcome once the job has ended and its log is read to the end."""

    @property
    def curve(self) -> Sequence[CurvePoint]:
        """All evaluations so far, in the order of their samples."""

    @property
    def billable_instance_seconds(self) -> float:
        """Billable seconds of all instances so far."""

    def stop(self) -> None:
        """Ask the job to stop; `look` returns its outcome."""

    def close(self) -> None:
        """Stop following the job. It keeps running."""


class Runner(Protocol):
    """Starter of a sweep's jobs."""

    def job_name(self, compiler: str, point: Point) -> str:
        """Return the name of the point's job. A point always has the same name, so no service starts it twice."""

    def start(self, compiler: str, point: Point, trial_number: int) -> Running:
        """Start the point's job, or attach to an existing job with that name.

        Raises `QuotaError` if the account has no room for the job now, or ever (`is_final`), `BudgetFull` if the budget
        has none, and `InputError` if the service will never start it.
        """

    def conclude(self, job_name: str, end: str) -> None:
        """Record the trial's attribute `end` with the job."""
