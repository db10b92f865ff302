"""What the jobs of a comparison do not tell, in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reports.comparison.arms import Job
from reports.comparison.comparison import STEADY, Comparison
from reports.comparison.equal_work import PAID

_NAMES = {PAID: "billable seconds", "samples": "samples", STEADY: "steady throughput"}
_MOST_NAMED = 4


def gaps(comparison: Comparison) -> list[str]:
    """Return which jobs have not ended, and which that succeeded tell no finite number of what others tell."""
    running = [job for job in comparison.jobs if job.unfinished]
    succeeded = [job for arm in comparison.arms for job in arm.succeeded]
    quality = comparison.measure.column if comparison.measure else comparison.loss_column
    columns = dict.fromkeys([*_NAMES, comparison.loss_column, quality])
    lacking = {column: _without(succeeded, column) for column in columns}
    told = [
        f"Missing: {_NAMES.get(column, column)} of {_listed(jobs)}: not told, or no finite number."
        for column, jobs in lacking.items()
        if jobs and (column == PAID or len(jobs) < len(succeeded))
    ]
    if running:
        told.insert(0, f"Missing: {_listed(running)}, still running: a later report counts what has ended by then.")
    return told


def deleted(names: Sequence[str]) -> list[str]:
    """Return which runs are not counted because somebody deleted them."""
    return [f"Missing: {_some(names)}, deleted in MLflow, which can restore what is deleted."] if names else []


def _without(jobs: Sequence[Job], column: str) -> list[Job]:
    return [job for job in jobs if not math.isfinite(job.number(column))]


def _listed(jobs: Sequence[Job]) -> str:
    return _some([f"“{job.title}”" for job in jobs])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
