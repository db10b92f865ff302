"""Expected cost of the jobs of a group that have not ended, from those that have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from tracking.following.followed_job import Outcome
from tracking.groups.planned_job import PlannedJob
from training.contract.budget import Amount, total
from training.contract.price import InstanceSeconds

ExpectedSeconds = Callable[[PlannedJob], float | None]
"""Returns the billable instance seconds of a job as earlier runs suggest them, or None."""


def amount_left(
    jobs: Sequence[PlannedJob],
    outcomes: Iterable[Outcome],
    running: Mapping[str, Amount],
    expected: ExpectedSeconds,
) -> Amount | None:
    """Return the expected cost of what remains, or None if it is unknown.

    `running` is the cost so far of the running jobs by name. A job costs what the successful jobs of its arm have cost
    on average; else what `expected` says; else what the jobs of the other arms have cost. A job that runs longer than
    that is about to end.
    """
    done = list(outcomes)
    ended = {outcome.planned.spec.name for outcome in done}
    costs = _costs_by_arm(done)
    left = []
    for job in jobs:
        if job.spec.name in ended:
            continue
        seconds = _expected_seconds(job, costs, expected)
        if seconds is None:
            return None
        so_far = running.get(job.spec.name)
        left.append(_amount(job, max(0.0, seconds - (so_far.seconds if so_far else 0.0))))
    return total(left)


def _costs_by_arm(outcomes: Iterable[Outcome]) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.failure is None and outcome.cost.seconds > 0:
            costs.setdefault(outcome.planned.arm, []).append(outcome.cost.seconds)
    return costs


def _expected_seconds(job: PlannedJob, costs: Mapping[str, Sequence[float]], expected: ExpectedSeconds) -> float | None:
    if job.arm in costs:
        return fmean(costs[job.arm])
    if (seconds := expected(job)) is not None:
        return seconds
    return fmean([fmean(each) for each in costs.values()]) if costs else None


def _amount(job: PlannedJob, seconds: float) -> Amount:
    billable = InstanceSeconds(seconds)
    return Amount(seconds=billable, usd=job.price.usd(billable) if job.price else None)
