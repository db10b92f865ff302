"""Looks at a comparison that runs in waves, from its jobs as the tracking server records them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from judging.sequential import Design, Look
from judging.waves import Costs, Progress, progress
from reports.comparison.arms import Arm, Job
from reports.comparison.equal_work import BILLABLE, DOLLARS, currency


def progress_of(design: Design, labels: Sequence[str], arms: Sequence[Arm], seed: int = 0) -> Progress:
    """Return the progress of a comparison of the arms `labels`, the baseline first.

    `arms` are those that have jobs. A job that failed, or that started with another cache state than most jobs of the
    arm's first wave, counts as a job without a cost.
    """
    costs = costs_of(design, arms)
    known = [cost for cost in costs.values() if cost is not None]
    resolution = float(bool(known) and all(cost == round(cost) for cost in known))
    return progress(design, labels, costs, seed=seed, resolution=resolution)


def last_looks(progress: Progress) -> dict[str, Look]:
    """Return the last look at each arm."""
    return {arm: look for looks in progress.looks for arm, look in looks.items()}


def costs_of(design: Design, arms: Sequence[Arm]) -> Costs:
    """Return the cost of each job that has ended: billable instance seconds, or dollars between instance types."""
    column = BILLABLE
    if arms and any(currency(arm, arms[0]) is DOLLARS for arm in arms[1:]):
        column = DOLLARS.column
    costs: dict[tuple[str, int], float | None] = {}
    for arm in arms:
        jobs = {int(job.repeat): job for job in arm.jobs if job.repeat.isdecimal() and not job.unfinished}
        state = _cache_state([jobs[at] for at in sorted(jobs) if at < design.looks[0]])
        for repeat, job in jobs.items():
            cost = job.number(column)
            counts = job.succeeded and job.cache_state == state and cost > 0
            costs[arm.label, repeat] = cost if counts else None
    return costs


def _cache_state(first_wave: Sequence[Job]) -> str | None:
    """Return the state that counts. It depends on the first wave alone: later jobs must not change an earlier look."""
    states = Counter(job.cache_state for job in first_wave if job.succeeded)
    return max(states, key=lambda state: (states[state], state == "warm"), default=None)
