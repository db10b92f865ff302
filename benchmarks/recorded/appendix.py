"""The rules of verdicts, written a second time from the appendix of docs/judging.md alone.

Nothing here imports `judging`. The benchmark `waves` takes its error rates from these rules, and a test compares them
with the product's in random cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import fftconvolve

Numbers = NDArray[np.float64]
LOOKS = (3, 5, 7, 9)
LEAST_SPREAD = 0.001
FUTILITY = 0.10
LEAST_GAIN = 0.05


@dataclass(frozen=True, kw_only=True)
class Side:
    """Jobs of one arm, in the order of their repeats."""

    paid: Numbers
    succeeded: NDArray[np.bool_]
    cold: NDArray[np.bool_]
    scores: Numbers
    """NaN where a job has none."""

    def first(self, repeats: int) -> Side:
        return Side(
            paid=self.paid[:repeats],
            succeeded=self.succeeded[:repeats],
            cold=self.cold[:repeats],
            scores=self.scores[:repeats],
        )

    @property
    def costs(self) -> Numbers:
        """Costs that are judged: of the successful jobs with a warm cache, or of all if all are cold."""
        warm = self.paid[self.succeeded & ~self.cold]
        return warm if len(warm) else self.paid[self.succeeded]

    @property
    def failed(self) -> int:
        return int((~self.succeeded).sum())


def side(paid: Numbers, succeeded: object = None, cold: object = None, scores: object = None) -> Side:
    """Return a side whose jobs all succeed, without a cache or scores, but for what is given."""
    return Side(
        paid=np.asarray(paid, dtype=float),
        succeeded=np.ones(len(paid), bool) if succeeded is None else np.asarray(succeeded, dtype=bool),
        cold=np.zeros(len(paid), bool) if cold is None else np.asarray(cold, dtype=bool),
        scores=np.full(len(paid), np.nan) if scores is None else np.asarray(scores, dtype=float),
    )


@dataclass(frozen=True, kw_only=True)
class Cost:
    ratio: float
    low: float
    high: float
    least: float
    bills: float

    @property
    def outcome(self) -> str:
        if self.high < 1 and self.bills < 1:
            return "cheaper"
        return "dearer" if self.low > 1 and self.bills > 1 else "undecided"


STEP = 0.002


@cache
def levels(looks: tuple[int, ...], error: float) -> tuple[float, ...]:
    """Return the two-sided level of each look: a random walk on a grid, which ends outside of the bounds so far."""
    grid = np.arange(-6, 6 + STEP / 2, STEP)
    inside, spent, previous = np.array([]), 0.0, 0.0
    found: list[float] = []
    for repeats in looks:
        share = repeats / looks[-1]
        step = stats.norm.pdf(grid, scale=math.sqrt(share - previous))
        density = fftconvolve(inside, step, mode="same") * STEP if found else step
        tail = np.cumsum(density[::-1])[::-1] * STEP - density * STEP / 2  # of each point
        target = error * math.expm1(-3 * share) / math.expm1(-3)
        bound = float(np.interp((target - spent) / 2, tail[::-1], grid[::-1]))
        found.append(float(2 * stats.norm.sf(bound / math.sqrt(share))))
        inside = density * np.clip((bound - np.abs(grid)) / STEP + 0.5, 0, 1)
        spent, previous = target, share
    return tuple(found)


def cost(arm: Side, baseline: Side, level: float, resolution: float = 0.0) -> Cost | None:
    """Return the ratio of the costs; None below two judged jobs on a side."""
    mine, others = arm.costs, baseline.costs
    if min(len(mine), len(others)) < 2:
        return None
    least_mean = min(stats.gmean(mine), stats.gmean(others))
    rounding = (resolution / least_mean) ** 2 / 12
    bills = [_bill(each, rounding) for each in (arm, baseline)]
    if arm.failed or baseline.failed:
        ends = _welch(bills[0], bills[1], level)
    else:
        ends = _successful(np.log(mine), np.log(others), level, rounding)
    ratio, low, high, least = (math.exp(each) for each in ends)
    return Cost(ratio=ratio, low=low, high=high, least=least, bills=math.exp(bills[0][0] - bills[1][0]))


def _successful(mine: Numbers, others: Numbers, level: float, rounding: float) -> tuple[float, float, float, float]:
    n, m = len(mine), len(others)
    below = _rank_distribution(n, m)
    position, position_least = (int((below <= each).sum()) for each in (level / 2, FUTILITY))
    if min(n, m) < 5 or not position:
        return _welch(_mean(mine, rounding), _mean(others, rounding), level)
    differences = np.sort(np.subtract.outer(mine, others).ravel())
    estimate, middle = _pairs_median(mine) - _pairs_median(others), float(np.median(differences))
    share = math.sqrt(1 / n + 1 / m)
    z, z_least = stats.norm.isf(level / 2), stats.norm.isf(FUTILITY)
    extra, floor = math.sqrt(rounding) * share, LEAST_SPREAD * share
    low = min(differences[position - 1] - z * extra, middle - z * floor, estimate)
    high = max(differences[-position] + z * extra, middle + z * floor, estimate)
    least = min(differences[max(position_least, 1) - 1] - z_least * extra, middle - z_least * floor)
    return estimate, float(low), float(high), float(least)


Mean = tuple[float, float, float]
"""Mean, square of its error, and degrees of freedom."""


def _mean(values: Numbers, rounding: float = 0.0, least: float = LEAST_SPREAD) -> Mean:
    return float(values.mean()), max(float(values.var(ddof=1)) + rounding, least**2) / len(values), len(values) - 1.0


def _bill(each: Side, rounding: float) -> Mean:
    paid = np.concatenate([each.costs, each.paid[~each.succeeded]])
    succeeded = np.arange(len(paid)) < len(each.costs)
    parts = paid / paid.mean() - succeeded / succeeded.mean()
    variance = max(float((parts**2).sum()) / (len(paid) - 1) + rounding, LEAST_SPREAD**2)
    return math.log(paid.mean() / succeeded.mean()), variance / len(paid), len(paid) - 1.0


def _welch(mine: Mean, others: Mean, level: float) -> tuple[float, float, float, float]:
    variance = mine[1] + others[1]
    freedom = variance**2 / (mine[1] ** 2 / mine[2] + others[1] ** 2 / others[2])
    estimate, error = mine[0] - others[0], math.sqrt(variance)
    half, one_sided = (float(stats.t.isf(each, freedom)) * error for each in (level / 2, FUTILITY))
    return estimate, estimate - half, estimate + half, estimate - one_sided


@cache
def _rank_distribution(n: int, m: int) -> Numbers:
    """Return P(U <= u) for two equal sides, by counting the ways to place one more job of either side."""
    ways = np.zeros((n + 1, m + 1, n * m + 1))
    ways[0, :, 0] = ways[:, 0, 0] = 1
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            ways[i, j] = ways[i, j - 1]
            ways[i, j, j:] += ways[i - 1, j, : n * m + 1 - j]
    counts = np.cumsum(ways[n, m])
    shares: Numbers = counts / counts[-1]
    return shares


def _pairs_median(values: Numbers) -> float:
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


def lost(arm: Numbers, baseline: Numbers, level: float, margin: float, *, paired: bool) -> tuple[float, float]:
    """Return the ends of the one-sided intervals of the lost quality, of a score of which more is better."""
    least = margin / 10
    if paired:
        mean, variance, freedom = _mean(baseline - arm, least=least)
    else:
        mine, others = _mean(arm, least=least), _mean(baseline, least=least)
        mean, variance = others[0] - mine[0], mine[1] + others[1]
        freedom = variance**2 / (mine[1] ** 2 / mine[2] + others[1] ** 2 / others[2])
    half = float(stats.t.isf(level, freedom)) * math.sqrt(variance)
    return mean - half, mean + half


def fails_too_often(arm: Side, baseline: Side) -> bool:
    failed, jobs = arm.failed, len(arm.paid)
    total, all_failed = jobs + len(baseline.paid), arm.failed + baseline.failed
    return failed > jobs / 3 or float(stats.hypergeom.sf(failed - 1, total, all_failed, jobs)) <= 0.05


@dataclass(frozen=True, kw_only=True)
class Ending:
    reason: str
    repeats: int


def look(
    arm: Side,
    baseline: Side,
    number: int,
    looks: tuple[int, ...] = LOOKS,
    *,
    paired: bool = True,
    margin: float = 0.03,
    comparisons: int = 1,
    resolution: float = 0.0,
    commonest: float = math.nan,
) -> str | None:
    """Return why an arm stops at a look; None if it continues. Scores count if any job has one."""
    is_last = number == len(looks) - 1
    each = cost(arm, baseline, levels(looks, 0.05 / comparisons)[number], resolution)
    if each is None:
        return "too few jobs succeeded"
    if each.outcome == "dearer":
        return "dearer"
    mine, others = arm.scores[arm.succeeded], baseline.scores[baseline.succeeded]
    is_kept = is_judged = not (np.isnan(arm.scores).all() and np.isnan(baseline.scores).all())
    if is_judged:
        if np.isnan(mine).any() and not np.isnan(others).any():
            return "quality lost"
        is_kept = not np.isnan(others).any()
        common = arm.succeeded & baseline.succeeded
        is_paired = paired and common.sum() > 1
        sides = (arm.scores[common], baseline.scores[common]) if is_paired else (mine, others)
        level = levels(looks, 0.10)[number] / 2
        passes = is_paired or (is_last and len(mine) >= 5)
        if passes and not is_paired:
            level = 0.05
        if lost(*sides, levels(looks, 0.10)[number] / 2, margin, paired=is_paired)[0] > margin:
            return "quality lost"
        most = lost(*sides, level, margin, paired=is_paired)[1]
        mean, variance, freedom = _mean(sides[0], least=margin / 10)
        is_above = not mean - float(stats.t.isf(level, freedom)) * math.sqrt(variance) <= commonest
        is_kept = is_kept and passes and most <= margin and is_above
    if fails_too_often(arm, baseline):
        return "too many failures"
    if each.least > 1 - LEAST_GAIN and each.outcome != "cheaper":
        return "no gain worth having"
    if each.outcome == "cheaper" and (is_kept or not is_judged):
        return "cheaper"
    return "last look" if is_last else None


def ending(arm: Side, baseline: Side, looks: tuple[int, ...] = LOOKS, *, paired: bool = True) -> Ending:
    """Return why and after how many repeats an arm stops that is compared alone."""
    for number, repeats in enumerate(looks):
        reason = look(arm.first(repeats), baseline.first(repeats), number, looks, paired=paired)
        sides = (arm.first(repeats), baseline.first(repeats))
        waits = reason == "too few jobs succeeded" and all(each.succeeded.sum() > 1 for each in sides)
        if reason and (not waits or repeats == looks[-1]):
            return Ending(reason=reason, repeats=repeats)
    raise AssertionError("the last look ends a comparison")


def is_reversed(pair: int, draws: Sequence[bool]) -> bool:
    """Return whether a pair of rounds of two arms is BAAB. `draws` has the order of each four rounds after the first
    four."""
    four = pair // 2
    return bool(pair % 2) != (bool(draws[four - 1]) if four else False)
