"""A budget: the worst case of a job, the time limit with which it certainly fits, and texts about it. Pure.

A service stops a job at its time limit with SIGTERM and kills it after a grace. Then it uploads what the job saved. All
of that is billed, for each instance. So a job costs at most its limit, the grace, the upload and its warm pool."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from training.contract.job_spec import JobSpec
from training.contract.price import InstanceSeconds, Price, instance_seconds
from training.services.registry import service_name, traits_of

GRACE_SECONDS = 120.0
"""Seconds between SIGTERM and SIGKILL at the time limit: SageMaker's, and the local service's default."""
UPLOAD_SECONDS = 30.0
"""Seconds allowed for the upload after the grace. No service limits it."""
SHORTEST_LIMIT_SECONDS = 60
"""Shortest useful time limit of a job about which nothing is known."""
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Amount:
    """Cost of some jobs, in billed time and in money."""

    seconds: InstanceSeconds
    """Billable instance seconds."""
    usd: float | None
    """US dollars; None if a price is unknown."""

    def __add__(self, other: Amount) -> Amount:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Amount(seconds=InstanceSeconds(self.seconds + other.seconds), usd=usd)

    def times(self, count: int) -> Amount:
        """Return the amount of `count` equal jobs."""
        usd = None if self.usd is None else self.usd * count
        return Amount(seconds=InstanceSeconds(self.seconds * count), usd=usd)

    def at_least(self, other: Amount) -> Amount:
        """Return the larger seconds and the larger dollars of two amounts. An unknown price stays unknown."""
        usd = None if self.usd is None or other.usd is None else max(self.usd, other.usd)
        return Amount(seconds=InstanceSeconds(max(self.seconds, other.seconds)), usd=usd)


NOTHING = Amount(seconds=InstanceSeconds(0.0), usd=0.0)


def total(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NOTHING)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Most that the jobs of a group may cost. None sets no limit."""

    max_usd: float | None = None
    """US dollars."""
    max_billable_seconds: float | None = None
    """Billable instance seconds."""

    @property
    def is_limited(self) -> bool:
        return self.max_usd is not None or self.max_billable_seconds is not None

    def allows(self, amount: Amount) -> bool:
        """Return whether an amount is within the budget. Unknown dollars are not, if dollars are limited."""
        if self.max_billable_seconds is not None and amount.seconds > self.max_billable_seconds * (1 + _ROUNDING):
            return False
        if self.max_usd is None:
            return True
        return amount.usd is not None and amount.usd <= self.max_usd * (1 + _ROUNDING)

    def left(self, spent: Amount) -> Budget:
        """Return the rest of the budget after `spent`, at least 0. If the spent dollars are unknown, none are left."""
        usd, seconds = self.max_usd, self.max_billable_seconds
        return Budget(
            max_usd=None if usd is None else 0.0 if spent.usd is None else max(0.0, usd - spent.usd),
            max_billable_seconds=None if seconds is None else max(0.0, seconds - spent.seconds),
        )


def certain_starts(costs: Sequence[Amount], budget: Budget) -> int:
    """Return how many of some jobs start within the budget even if each runs to its time limit.

    `costs` are the jobs' worst cases in the order of their starts. The first job starts in any case, with a shorter
    limit if it must. A later one may need as long as those before it, and then it does not start with less.
    """
    spent = NOTHING
    for started, cost in enumerate(costs):
        spent += cost
        if not budget.allows(spent):
            return max(1, started)
    return len(costs)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """State of a group's budget at one moment."""

    budget: Budget
    spent: Amount
    """Cost of the ended jobs, and of the running ones so far."""
    committed: Amount
    """Cost of the ended jobs, and the worst case of all others that have started. It never exceeds the budget."""

    @property
    def left(self) -> Budget:
        """Part of the budget that is not spent."""
        return self.budget.left(self.spent)

    @property
    def free(self) -> Budget:
        """Part of the budget that no job has spent or reserved."""
        return self.budget.left(self.committed)


def stop_grace_seconds(service: str, environment: Mapping[str, str]) -> float:
    """Return the seconds between SIGTERM and SIGKILL of a job with this environment."""
    variable = traits_of(service).stop_grace_variable
    return float(environment.get(variable, GRACE_SECONDS)) if variable else GRACE_SECONDS


def overhead_seconds(spec: JobSpec) -> float:
    """Return the seconds of one instance that may be billed beyond the time limit: the grace and the upload."""
    return stop_grace_seconds(service_name(spec.instance_type), spec.environment) + UPLOAD_SECONDS


def worst_case(spec: JobSpec, price: Price | None) -> Amount:
    """Return the most that a job can cost, with its warm pool. `price` is the price of its dearest instance type.

    On spot capacity the same bound holds: at most the seconds on the instances are billed, over all restarts.
    """
    return _amount(spec, price, spec.max_run_seconds + overhead_seconds(spec)) + warm_pool(spec, price)


def warm_pool(spec: JobSpec, price: Price | None) -> Amount:
    """Return the most that the warm pool of a job can cost."""
    return _amount(spec, price, spec.keep_alive_seconds)


def _amount(spec: JobSpec, price: Price | None, seconds: float) -> Amount:
    billable = instance_seconds(seconds, spec.billed_instances)
    return Amount(seconds=billable, usd=price.usd(billable) if price else None)


def dearest(prices: Iterable[Price | None]) -> Price | None:
    """Return the highest of the prices of a job's instance types; None if one is unknown."""
    known = list(prices)
    if not known or None in known:
        return None
    return max((each for each in known if each), key=lambda each: each.usd_per_hour)


def longest_limit(spec: JobSpec, price: Price | None, free: Budget) -> float:
    """Return the longest time limit in seconds with which the job's worst case is within `free`; it may be negative."""
    seconds = math.inf if free.max_billable_seconds is None else free.max_billable_seconds / spec.billed_instances
    if free.max_usd is not None:
        per_second = price.usd(instance_seconds(1.0, spec.billed_instances)) if price else math.inf
        seconds = min(seconds, free.max_usd / per_second) if per_second else seconds
    return seconds - overhead_seconds(spec) - spec.keep_alive_seconds


def fitting_limit(
    spec: JobSpec, price: Price | None, free: Budget, *, shortest_seconds: float, jobs: int = 1
) -> int | None:
    """Return the time limit in seconds with which a job may start, or None if it does not fit into `free`.

    If `free` is too small for `jobs` jobs at their own limit, they share it; if the shares are too small, fewer do. The
    limit is at most the job's own, and at least the smaller one of that and `shortest_seconds`.
    """
    shortest = min(spec.max_run_seconds, math.ceil(shortest_seconds))
    for sharing in range(max(1, jobs), 0, -1):
        share = Budget(
            max_usd=None if free.max_usd is None else free.max_usd / sharing,
            max_billable_seconds=None if free.max_billable_seconds is None else free.max_billable_seconds / sharing,
        )
        limit = min(spec.max_run_seconds, longest_limit(spec, price, share) * (1 + _ROUNDING))
        if limit >= shortest:
            return math.floor(limit)
    return None


def amount_text(amount: Amount, budget: Budget | None = None) -> str:
    """Return an amount, such as `1,500 s and 1.25 USD`; with a budget, only in the units that it limits."""
    limits = budget if budget and budget.is_limited else Budget(max_usd=0.0, max_billable_seconds=0.0)
    seconds = None if limits.max_billable_seconds is None else amount.seconds
    usd = None if limits.max_usd is None else amount.usd
    return _joined(seconds, usd) or "an unknown number of dollars"


def budget_text(budget: Budget) -> str:
    """Return the limits of a budget, such as `5.00 USD`."""
    return _joined(budget.max_billable_seconds, budget.max_usd) or "no limit"


def budget_sentence(state: Spending) -> str:
    """Return the spent and the remaining part of a budget, without its full stop."""
    spent = amount_text(state.spent, state.budget)
    return f"Budget of {budget_text(state.budget)}: {spent} spent, {budget_text(state.left)} left"


def _joined(seconds: float | None, usd: float | None) -> str:
    texts = [] if seconds is None else [f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:,.1f} s"]
    texts += [] if usd is None else [f"{usd:,.2f} USD" if usd >= 0.1 else f"{usd:,.4f} USD"]
    return " and ".join(texts)
