"""Ratio of the costs of two arms at one look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import ndtri

from judging.cache_states import LogCosts, log_costs, mean_of_trainings
from judging.failures import surcharge
from judging.intervals import LEAST_SPREAD, Interval, welch_ends
from judging.rank_test import RankTest, rank_test
from judging.result import Result
from judging.summaries import MIN_RANKED, location

FUTILITY_LEVEL = 0.10
"""Probability of stopping an arm at one look although it has the least gain."""
MOST_TRAININGS = 1_000
"""Largest number of trainings for which `CostRatio.cheaper_from` is searched."""


@dataclass(frozen=True, kw_only=True)
class CostRatio:
    """Cost, arm over baseline, of the trainings to come."""

    ratio: Interval
    least: float
    """Lower end of the one-sided 90 % interval. A greater gain is ruled out."""
    cold: Interval | None = None
    """Ratio for one training with a cold compile cache; None unless an arm has jobs with and without a cold cache."""
    warm: Interval | None = None
    """Ratio for trainings with a warm cache, likewise."""
    cheaper_from: int | None = None
    """Fewest trainings, the first with a cold cache, for which the whole interval is below 1; None if there is no such
    number up to `MOST_TRAININGS`, or no jobs of both states."""


def cost_ratio(
    arm: Sequence[Result], baseline: Sequence[Result], *, level: float, trainings: int = 1, resolution: float = 0.0
) -> CostRatio | None:
    """Return the ratio with its intervals at the two-sided `level`; None if a side has too few successful jobs.

    With jobs of one cache state, the ratio compares geometric means, with Welch's t. From `MIN_RANKED` repeats on it
    compares typical costs (`summaries.typical`), with the interval of Mann and Whitney's test. With both states it
    compares `trainings` to come; see `cache_states.mean_of_trainings`. Failed jobs add their cost to the cost of the
    successful ones, and the interval covers the ratio with and without them: their number is known too badly for an
    interval of its own.

    `resolution` is the step to which costs are rounded; see `intervals.ratio_interval`.
    """
    mine, others = log_costs(arm, baseline)
    if not (mine.all and others.all):
        return None
    factor = surcharge(arm) / surcharge(baseline)
    sides = _Sides(mine, others, level, _rounding(mine, others, resolution), factor)
    result = sides.of_trainings(trainings)
    return sides.by_state(result) if result and (mine.is_mixed or others.is_mixed) else result


@dataclass(frozen=True)
class _Sides:
    arm: LogCosts
    baseline: LogCosts
    level: float
    rounding: float
    """Variance of the rounding of the logarithms."""
    failures: float
    """Ratio of the costs of usable models, divided by the ratio of the costs of successful jobs."""

    def of_trainings(self, trainings: int) -> CostRatio | None:
        """Return the ratio for this many trainings to come."""
        if not (self.arm.is_mixed or self.baseline.is_mixed):
            ranks = rank_test(self.arm.all, self.baseline.all)
            if min(ranks.n_arm, ranks.n_baseline) >= MIN_RANKED and ranks.fits(self.level / 2):
                estimate = location(self.arm.all) - location(self.baseline.all)
                low, high, least = _by_ranks(ranks, self.level, self.rounding)
                return self._ratio(estimate, min(low, estimate), max(high, estimate), least)
        ends = self._by_means(trainings)
        return self._ratio(*ends) if ends else None

    def by_state(self, result: CostRatio) -> CostRatio:
        """Return the result with the ratio for each cache state."""
        cold, warm = (
            replace(self, arm=self.arm.of_state(is_cold=cold), baseline=self.baseline.of_state(is_cold=cold))
            for cold in (True, False)
        )
        first, later = self.of_trainings(1), warm.of_trainings(1)
        return replace(
            result,
            cold=_counted(first.ratio, cold) if first else None,
            warm=later.ratio if later else None,
            cheaper_from=self._cheaper_from(),
        )

    def _cheaper_from(self) -> int | None:
        """Return the fewest trainings that are shown to be cheaper. The ratio falls or rises steadily with them."""
        low, high = 0, 1
        while not self._is_cheaper(high):
            low, high = high, 2 * high
            if low >= MOST_TRAININGS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_cheaper(middle) else (middle, high)
        return high

    def _is_cheaper(self, trainings: int) -> bool:
        ends = self._by_means(trainings)
        return ends is not None and self._ratio(*ends).ratio.high < 1

    def _by_means(self, trainings: int) -> tuple[float, float, float, float] | None:
        """Return the difference of the logarithms, the ends of its interval, and the one-sided lower end: Welch's t."""
        mine, others = (
            mean_of_trainings(side, trainings, rounding=self.rounding, least_spread=LEAST_SPREAD)
            for side in (self.arm, self.baseline)
        )
        if mine is None or others is None:
            return None
        low, high = welch_ends(mine, others, 1 - self.level)
        return mine.value - others.value, low, high, welch_ends(mine, others, 1 - 2 * FUTILITY_LEVEL)[0]

    def _ratio(self, estimate: float, low: float, high: float, least: float) -> CostRatio:
        """Return the ratio with failures, given the logarithms of the ratio of successful jobs."""
        at_least, at_most = min(self.failures, 1), max(self.failures, 1)
        ratio = Interval(
            math.exp(estimate) * self.failures,
            math.exp(low) * at_least,
            math.exp(high) * at_most,
            len(self.arm.all),
            len(self.baseline.all),
        )
        return CostRatio(ratio=ratio, least=math.exp(least) * at_least)


def _by_ranks(ranks: RankTest, level: float, rounding: float) -> tuple[float, float, float]:
    """Return the ends of the interval of the logarithm of the ratio, and the one-sided lower end, by ranks.

    Rounded costs are often equal, and their ranks show less spread than the costs have: the error of rounding is added.
    """
    share = 1 / ranks.n_arm + 1 / ranks.n_baseline
    rounded, least = math.sqrt(rounding * share), LEAST_SPREAD * math.sqrt(share)
    quantile, one_sided = float(ndtri(1 - level / 2)), float(ndtri(1 - FUTILITY_LEVEL))
    return (
        min(ranks.low(level / 2) - quantile * rounded, ranks.estimate - quantile * least),
        max(ranks.high(level / 2) + quantile * rounded, ranks.estimate + quantile * least),
        min(ranks.low(FUTILITY_LEVEL) - one_sided * rounded, ranks.estimate - one_sided * least),
    )


def _rounding(arm: LogCosts, baseline: LogCosts, resolution: float) -> float:
    """Return the variance of the rounding of the logarithms, from the smaller of the two mean costs."""
    least = min(math.fsum(side.all) / len(side.all) for side in (arm, baseline))
    return (resolution / math.exp(least)) ** 2 / 12


def _counted(interval: Interval, sides: _Sides) -> Interval:
    """Return the interval with the numbers of jobs of one state."""
    return replace(interval, n_arm=len(sides.arm.all), n_baseline=len(sides.baseline.all))
