"""Ratio of the costs of two arms at one look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, product
from operator import sub
from statistics import fmean, median

from scipy.special import ndtri

from judging.cache_states import ColdStart, cold_start, costs_by_state
from judging.intervals import LEAST_SPREAD, Estimate, Interval, difference, mean_estimate
from judging.result import Result
from judging.summaries import MIN_RANKED, geometric_mean, location

FUTILITY_LEVEL = 0.10
"""Probability of stopping an arm at one look although it has the least gain."""


@dataclass(frozen=True, kw_only=True)
class CostRatio:
    """Cost, arm over baseline."""

    ratio: Interval
    """Typical cost with its interval at the look's level, which allows for looking often; the mean bill of a usable
    model if any job failed. With a warm compile cache, if the arm has jobs with one."""
    least_ratio: float
    """Lower end of the one-sided 90 % interval. A greater gain is ruled out."""
    bills: float
    """Observed ratio of the mean bills: everything paid, divided by the number of successful jobs. A few slow jobs
    raise it more than the typical cost."""
    cold: ColdStart | None = None
    """Extra cost of a cold compile cache; None if no arm has both cold jobs and others."""


def cost_ratio(
    arm: Sequence[Result], baseline: Sequence[Result], *, level: float, trainings: int = 1, resolution: float = 0.0
) -> CostRatio | None:
    """Return the ratio with its intervals at the two-sided `level`; None below two successful jobs on a side.

    Of an arm that has jobs with and without a cold compile cache, the cold ones are left out; see `cache_states`.

    If no job failed, the ratio compares geometric means, with Welch's t on the logarithms. From `MIN_RANKED` repeats on
    it compares typical costs (`summaries.typical`), with the interval of Mann and Whitney's test. If a job failed, it
    compares the mean bills of a usable model, with Welch's t on the logarithms of the two means.

    `resolution` is the step to which costs are rounded: billing counts whole seconds. The variance of that rounding,
    resolution^2 / 12, is added to each side. Three jobs that all bill 41 s do not prove a spread of zero.
    """
    mine, others = costs_by_state(arm, baseline)
    costs, base = mine.judged, others.judged
    if min(len(costs), len(base)) < 2:
        return None
    rounding = (resolution / min(geometric_mean(costs), geometric_mean(base))) ** 2 / 12
    lost, lost_baseline = _lost(arm), _lost(baseline)
    bill, bill_baseline = _bill(costs, lost, rounding), _bill(base, lost_baseline, rounding)
    if lost or lost_baseline:
        ends = _by_means(difference(bill, bill_baseline), level)
    else:
        ends = _of_successful([math.log(cost) for cost in costs], [math.log(cost) for cost in base], level, rounding)
    estimate, low, high, least = map(math.exp, ends)
    return CostRatio(
        ratio=Interval(estimate, low, high, len(costs), len(base)),
        least_ratio=least,
        bills=math.exp(bill.value - bill_baseline.value),
        cold=cold_start(mine, others, trainings),
    )


Ends = tuple[float, float, float, float]
"""Logarithm of a ratio, the ends of its interval, and the lower end of the one-sided interval."""


def _of_successful(arm: Sequence[float], baseline: Sequence[float], level: float, rounding: float) -> Ends:
    ranks = rank_test(arm, baseline)
    if min(len(arm), len(baseline)) >= MIN_RANKED and ranks.fits(level / 2):
        estimate = location(arm) - location(baseline)
        low, high, least = _by_ranks(ranks, level, rounding)
        return estimate, min(low, estimate), max(high, estimate), least
    sides = (mean_estimate(side, rounding, LEAST_SPREAD) for side in (arm, baseline))
    return _by_means(difference(*sides), level)


def _by_means(change: Estimate, level: float) -> Ends:
    return change.value, *change.ends(1 - level), change.ends(1 - 2 * FUTILITY_LEVEL)[0]


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


def _lost(results: Sequence[Result]) -> list[float]:
    """Return what was paid for each failed job."""
    return [result.cost or 0.0 for result in results if not result.succeeded]


def _bill(succeeded: Sequence[float], lost: Sequence[float], rounding: float) -> Estimate:
    """Return the logarithm of the mean bill of a usable model, all that was paid over the successful jobs.

    A ratio of two means, of the payments and of the successes (0 or 1). Its error follows by the delta method from each
    job's p / mean(p) - s / mean(s) (Cochran, Sampling Techniques, 1977, chapter 6).
    """
    paid, successes = [*succeeded, *lost], [1.0] * len(succeeded) + [0.0] * len(lost)
    mean, share = fmean(paid), len(succeeded) / len(paid)
    squares = math.fsum((p / mean - s / share) ** 2 for p, s in zip(paid, successes, strict=True))
    freedom = len(paid) - 1
    variance = max(squares / freedom + rounding, LEAST_SPREAD**2)
    return Estimate(math.log(mean / share), variance / len(paid), freedom)


@dataclass(frozen=True)
class RankTest:
    """Arm and baseline compared by ranks: a few slow jobs cannot hide a difference, as they can in a mean."""

    differences: tuple[float, ...]
    """Arm minus baseline for every pair of jobs, ascending."""
    n_arm: int
    n_baseline: int

    @property
    def estimate(self) -> float:
        """The median of all pairs' differences (Hodges and Lehmann 1963)."""
        return median(self.differences)

    def low(self, level: float) -> float:
        """Return the lower end of the interval that is too high with probability `level` at most; see `fits`."""
        return self.differences[max(self._position(level), 1) - 1]

    def high(self, level: float) -> float:
        """Return the upper end of the interval that is too low with probability `level` at most; see `fits`."""
        return self.differences[-max(self._position(level), 1)]

    def fits(self, level: float) -> bool:
        """Return whether there are enough jobs for an end of the interval with this level."""
        return self._position(level) > 0

    def _position(self, level: float) -> int:
        """Return the position, from 1, of the interval's end among the differences; 0 if no position has the level."""
        return sum(probability <= level for probability in _cumulative(self.n_arm, self.n_baseline))


def rank_test(arm: Sequence[float], baseline: Sequence[float]) -> RankTest:
    """Return the comparison by ranks of two sides with at least one value each."""
    differences = sorted(mine - others for mine, others in product(arm, baseline))
    return RankTest(tuple(differences), len(arm), len(baseline))


@cache
def _cumulative(n: int, m: int) -> tuple[float, ...]:
    """Return P(U <= u) for u = 0 ... n m, where U counts the pairs in which the first of two equal sides is smaller."""
    sums = list(accumulate(_orders(n, m)))
    return tuple(each / sums[-1] for each in sums)


def _orders(n: int, m: int) -> list[int]:
    """Return the number of orders of n and m jobs in which u pairs are smaller, for u = 0 ... n m.

    These are the coefficients of q^u in the Gaussian binomial coefficient, the product of (1 - q^(n + i)) / (1 - q^i)
    for i = 1 ... m (Mann and Whitney 1947; Andrews, The Theory of Partitions, chapter 3).
    """
    counts = [1] + [0] * (n * m)
    for i in range(1, m + 1):
        counts = list(map(sub, counts, [0] * (n + i) + counts))
        for first in range(i):
            counts[first::i] = accumulate(counts[first::i])
    return counts
