"""Expected cost of several planned jobs together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.planning.command_plan import CommandPlan, JobEntry
from experiments.planning.expected_cost import ExpectedCost
from reports.model.wording import joined


def expected_total(jobs: Sequence[JobEntry]) -> ExpectedCost | None:
    """Return the expected cost of the jobs, without those that run again; None if that of any is unknown."""
    costs = [job.expected for job in jobs if not job.planned.is_again]
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs):
        return None
    usd = None if any(cost.usd is None for cost in known) else sum(cost.usd or 0.0 for cost in known)
    sources = list(dict.fromkeys(cost.source for cost in known))
    return ExpectedCost(seconds=sum(cost.seconds for cost in known), usd=usd, source=joined(sources))


def expected_of_search(plan: CommandPlan) -> tuple[int, ExpectedCost] | None:
    """Return the most trainings of a sweep, and their cost if each costs as much as its compiler's first training.

    None if the cost of a first training is unknown. Calibrations are not counted.
    """
    first = [job for job in plan.jobs if not is_calibration(job)]
    cost = expected_total(first)
    if cost is None or plan.search is None:
        return None
    trainings = plan.search.max_jobs - (len(plan.jobs) - len(first))
    factor = trainings / len(first)
    usd = None if cost.usd is None else cost.usd * factor
    return trainings, replace(cost, seconds=cost.seconds * factor, usd=usd)


def is_calibration(job: JobEntry) -> bool:
    """Return whether a job of a sweep only times its batch sizes."""
    return job.planned.tags.get("platform.role") == "calibration"
