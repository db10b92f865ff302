"""Confidence intervals of differences and ratios of means. Every rule has a test worked out by hand.

Ratios are taken on the log scale for two reasons. A compiler or a batch size multiplies the time of a job rather than
adding to it. And the ratio of two geometric means is then exact and symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import stdtrit

CONFIDENCE = 0.95
LEAST_SPREAD = 0.001
"""Least standard deviation of the logarithm of a cost or a rate. No recorded job repeats more exactly, so a few equal
values do not prove that all are equal."""
WIDEST = 4.0
"""Factor between the ends of the interval of a ratio, such as from half to double, above which it says nothing about an
arm whose cost is not shown to differ."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float
    n_arm: int
    n_baseline: int

    @property
    def is_informative(self) -> bool:
        """False for the interval of a ratio that includes 1 and is wider than `WIDEST`: there are too few repeats."""
        return not self.low <= 1 <= self.high or self.high <= WIDEST * self.low


@dataclass(frozen=True)
class Estimate:
    """An estimated value with its error."""

    value: float
    variance: float
    """Square of the standard error."""
    degrees_of_freedom: float

    def ends(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the ends of the value's interval, by Student's t."""
        quantile = float(stdtrit(self.degrees_of_freedom, (1 + confidence) / 2))
        half_width = quantile * math.sqrt(self.variance)
        return self.value - half_width, self.value + half_width


def ratio_intervals(arms: Sequence[Sequence[float]], baseline: Sequence[float]) -> list[Interval | None]:
    """Return the ratio of each arm to the baseline; None for an arm with fewer than two values, or without a baseline.

    Holm's rule (1979): the error of 5 % is divided among the arms that have shown no difference so far. So in 95 % of
    comparisons, no interval of an arm that equals the baseline excludes 1. The spread is at least `LEAST_SPREAD`.
    """
    intervals: list[Interval | None] = [None] * len(arms)
    remaining = [at for at, arm in enumerate(arms) if min(len(arm), len(baseline)) >= 2]
    while remaining:
        confidence = 1 - (1 - CONFIDENCE) / len(remaining)
        for at in remaining:
            intervals[at] = _ratio_interval(arms[at], baseline, confidence)
        undecided = [at for at in remaining if (each := intervals[at]) and each.low <= 1 <= each.high]
        if len(undecided) == len(remaining):
            break
        remaining = undecided
    return intervals


def _ratio_interval(arm: Sequence[float], baseline: Sequence[float], confidence: float) -> Interval:
    """Return the ratio of geometric means of at least two values a side, with the interval of Welch's t.

    Each side has its own variance (Biometrika 34, 1947): settings spread differently.
    """
    logs = ([math.log(value) for value in side] for side in (arm, baseline))
    change = difference(*(mean_estimate(side, least_spread=LEAST_SPREAD) for side in logs))
    low, high = change.ends(confidence)
    return Interval(math.exp(change.value), math.exp(low), math.exp(high), len(arm), len(baseline))


def mean_estimate(values: Sequence[float], rounding: float = 0.0, least_spread: float = 0.0) -> Estimate:
    """Return the mean of at least two values.

    `rounding` is the variance of the values' rounding and is added. `least_spread` is the least standard deviation: a
    few equal values do not prove that all are equal.
    """
    freedom = len(values) - 1
    variance = max(sum_of_squares(values) / freedom + rounding, least_spread**2)
    return Estimate(fmean(values), variance / len(values), freedom)


def difference(arm: Estimate, baseline: Estimate) -> Estimate:
    """Return arm - baseline; degrees of freedom by Satterthwaite (1946)."""
    value, variance = arm.value - baseline.value, arm.variance + baseline.variance
    if variance <= 0:
        return Estimate(value, 0.0, 1.0)
    parts = [(side.variance / variance) ** 2 / side.degrees_of_freedom for side in (arm, baseline)]
    return Estimate(value, variance, 1 / math.fsum(parts))


def sum_of_squares(values: Sequence[float]) -> float:
    """Return the sum of squared distances from the mean."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)
