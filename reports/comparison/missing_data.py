"""Sentences about data that is missing from a comparison. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reports.comparison.arms import STEADY, Job
from reports.comparison.comparison import Comparison
from reports.comparison.equal_work import BILLABLE

_NAMES = {BILLABLE: "billable seconds", "samples": "samples", STEADY: "steady throughput"}
_MAX_NAMES = 4


def missing_data(comparison: Comparison) -> list[str]:
    """Return sentences about jobs that have not ended, successful jobs without a number that others have, and costs
    that do not count."""
    running = [job for job in comparison.jobs if job.unfinished]
    succeeded = [job for arm in comparison.arms for job in arm.succeeded]
    quality = comparison.measure.column if comparison.measure else comparison.loss_column
    columns = dict.fromkeys([*_NAMES, comparison.loss_column, quality])
    lacking = {column: _without(succeeded, column) for column in columns}
    sentences = [
        f"Missing: {_NAMES.get(column, column)} of {_listed(jobs)}: not recorded or not finite."
        for column, jobs in lacking.items()
        if jobs and (column == BILLABLE or len(jobs) < len(succeeded))
    ]
    sentences += _late(comparison.jobs) + _not_counted(comparison.jobs)
    if running:
        sentences.insert(
            0, f"Missing: {_listed(running)}, still running. Run `trainfare report` again after they have ended."
        )
    return sentences


def _late(jobs: Sequence[Job]) -> list[str]:
    """Return a sentence for each group with jobs whose log or billed seconds arrived too late for their runs."""
    late = [job for job in jobs if job.text.get("missing", "no") != "no"]
    by_group: dict[str, list[Job]] = {}
    for job in late:
        by_group.setdefault(job.text.get("group") or "", []).append(job)
    return [
        f"Missing: the end of the log or the billed seconds of {_listed(of_group)}, which SageMaker had not delivered "
        f"in time. Run `trainfare attach --group {group}` later to add them."
        for group, of_group in by_group.items()
    ]


def _not_counted(jobs: Sequence[Job]) -> list[str]:
    """Return a sentence that names the costs that cannot be true: negative ones, and those of 0 of successful jobs."""
    wrong = [job for job in jobs if (cost := job.number(BILLABLE)) < 0 or (cost == 0 and job.succeeded)]
    if not wrong:
        return []
    costs = _shortened([f"{job.number(BILLABLE):g} of “{job.title}”" for job in wrong])
    return [f"Not counted: billable instance seconds {costs}: the cost of a job must be above 0."]


def deleted(names: Sequence[str]) -> list[str]:
    """Return a sentence that names the deleted runs, if any."""
    return [f"Missing: {_shortened(names)}, deleted in MLflow. MLflow can restore deleted runs."] if names else []


def _without(jobs: Sequence[Job], column: str) -> list[Job]:
    return [job for job in jobs if not math.isfinite(job.number(column))]


def _listed(jobs: Sequence[Job]) -> str:
    return _shortened([f"“{job.title}”" for job in jobs])


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
