"""Worst case of planned jobs: most seconds and dollars that one job, a wave or a whole group can cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from judging.design import Design
from tracking.groups.planned_job import PlannedJob
from training.contract.budget import Amount, Budget, longest_limit, total, worst_case


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """Most that some jobs can cost."""

    jobs: int
    """Jobs without those that run again."""
    again: int
    """Jobs that run only because an equal job was disturbed."""
    amount: Amount
    """Cost if every job runs to its time limit and through its grace."""


def worst_case_of_job(job: PlannedJob) -> Amount:
    """Return the most that a job can cost on the dearest of its instance types."""
    return worst_case(job.spec, job.dearest_price)


def worst_case_of(jobs: Sequence[PlannedJob]) -> WorstCase:
    """Return the most that jobs can cost if all of them run. A plan holds the most repeats, and repeats of disturbed
    jobs."""
    again = sum(job.is_again for job in jobs)
    return WorstCase(jobs=len(jobs) - again, again=again, amount=total(map(worst_case_of_job, jobs)))


def worst_case_by_look(jobs: Sequence[PlannedJob], design: Design) -> list[tuple[int, WorstCase]]:
    """Return for each look its repeats, and the most that all jobs up to that look can cost."""
    return [(look, worst_case_of([job for job in jobs if job.repeat < look])) for look in design.looks]


def fitting_repeats(jobs: Sequence[PlannedJob], budget: Budget) -> int:
    """Return the largest number of repeats of every arm with which all jobs fit into the budget; 0 if none fits."""
    repeats = range(max((job.repeat for job in jobs), default=-1) + 1, 0, -1)
    fits = (n for n in repeats if budget.allows(worst_case_of([job for job in jobs if job.repeat < n]).amount))
    return next(fits, 0)


def fitting_limit_of_all(jobs: Sequence[PlannedJob], budget: Budget) -> int:
    """Return the time limit in seconds with which all jobs fit into the budget together; 0 if there is none.

    Jobs on different machines get an equal share of the budget each.
    """
    share = Budget(
        max_usd=None if budget.max_usd is None else budget.max_usd / len(jobs),
        max_billable_seconds=None if budget.max_billable_seconds is None else budget.max_billable_seconds / len(jobs),
    )
    limits = [min(job.spec.max_run_seconds, longest_limit(job.spec, job.dearest_price, share)) for job in jobs]
    return max(0, math.floor(min(limits) * (1 + 1e-9)))
