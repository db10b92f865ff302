"""Protocol between a sweep and what runs its jobs: real jobs (`trial_jobs.py`), or recorded ones in a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint, Ended


class Running(Protocol):
    """A trial's job while it runs."""

    job_name: str

    @property
    def due(self) -> float:
        """When to look again, monotonic clock, seconds."""

    def look(self) -> Ended | None:
        """See what is new, and record it; return how the job ended once its log is read out."""

    @property
    def curve(self) -> Sequence[CurvePoint]:
        """Evaluations so far, in the order of their samples; of a job that was taken up, from its beginning."""

    @property
    def billable_instance_seconds(self) -> float:
        """Instance seconds so far, for which something is or will be paid."""

    def stop(self) -> None:
        """Ask the job to stop; its end is seen by `look`."""

    def close(self) -> None:
        """Leave it running."""


class Runner(Protocol):
    """Starts the jobs of a sweep."""

    def job_name(self, compiler: str, point: Point) -> str:
        """Return the name of the point's job: the same point has the same name, whoever asks, so no service starts it
        twice."""

    def start(self, compiler: str, point: Point, trial_number: int) -> Running:
        """Start the point's job, or attach to the one that has its name.

        Raises `QuotaError` where there is no room for it now, or never will be (`is_final`), and `InputError` for one
        that the service will never start.
        """

    def conclude(self, job_name: str, end: str) -> None:
        """Record beside the job how its trial ended, in the words of the trial's attribute `end`."""
