"""Compile caches: jobs that started with a cold cache, jobs that started with a warm one, and trainings to come.

A cache makes the first training of a setting dearer than all later ones. So neither state alone says what a setting
costs. The cost of N trainings to come is one cold job and N - 1 warm ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from statistics import fmean

from judging.intervals import Estimate, mean_estimate, sum_of_squares
from judging.result import CacheState, Result, costs


@dataclass(frozen=True)
class LogCosts:
    """Logarithms of the costs of an arm's successful jobs, by the state of the compile cache at their start."""

    cold: tuple[float, ...]
    later: tuple[float, ...]
    """Jobs with a warm cache, or without a cache."""

    @property
    def is_mixed(self) -> bool:
        """True if some jobs started with a cold cache and others did not."""
        return bool(self.cold and self.later)

    @property
    def all(self) -> tuple[float, ...]:
        """Costs of all jobs."""
        return self.cold + self.later

    def of_state(self, *, is_cold: bool) -> LogCosts:
        """Return the costs of one state; all costs of an arm that has only one."""
        if not self.is_mixed:
            return self
        return LogCosts(self.cold, ()) if is_cold else LogCosts((), self.later)


def log_costs(arm: Sequence[Result], baseline: Sequence[Result]) -> tuple[LogCosts, LogCosts]:
    """Return the costs that can be compared.

    If both arms use a cache, the jobs of a state that only one of them has are left out: its cost is not known for the
    other. Jobs that found only a part of their programs in the cache are left out if their arm has any others.
    """
    mine, others = _without_partial(arm), _without_partial(baseline)
    states = [{result.cache for result in side} - {"off"} for side in (mine, others)]
    kept: set[CacheState] = {"off", *(states[0] & states[1] if all(states) else states[0] | states[1])}
    return _by_state(mine, kept), _by_state(others, kept)


def mean_of_trainings(
    logs: LogCosts, trainings: int, *, rounding: float = 0.0, least_spread: float = 0.0
) -> Estimate | None:
    """Return the logarithm of the mean cost of this many trainings to come; None with too few jobs.

    An arm with jobs of one state needs two of them: every training costs the same. An arm with both states needs three
    jobs: the first training costs C and each later one W, both geometric means, so the mean of N is
    (C + (N - 1) W) / N. Jobs of both states are taken to have the same relative spread. Its error follows by the delta
    method: with w = C / (C + (N - 1) W), the variance is s^2 (w^2 / n_cold + (1 - w)^2 / n_later).
    See `intervals.difference_interval` for `rounding` and `least_spread`.
    """
    if not logs.is_mixed:
        return mean_estimate(logs.all, rounding, least_spread) if len(logs.all) > 1 else None
    freedom = len(logs.all) - 2
    if freedom < 1:
        return None
    first, later = math.exp(fmean(logs.cold)), math.exp(fmean(logs.later))
    total = first + (trainings - 1) * later
    share = first / total
    spread = max((sum_of_squares(logs.cold) + sum_of_squares(logs.later)) / freedom + rounding, least_spread**2)
    variance = spread * (share**2 / len(logs.cold) + (1 - share) ** 2 / len(logs.later))
    return Estimate(math.log(total / trainings), variance, freedom)


def _without_partial(results: Sequence[Result]) -> list[Result]:
    succeeded = [result for result in results if result.succeeded and result.cost is not None]
    return [result for result in succeeded if result.cache != "partial"] or succeeded


def _by_state(results: Sequence[Result], kept: Set[CacheState]) -> LogCosts:
    cold, later = (
        tuple(
            math.log(cost)
            for cost in costs([each for each in results if each.cache in kept and (each.cache == "cold") is is_cold])
        )
        for is_cold in (True, False)
    )
    return LogCosts(cold, later)
