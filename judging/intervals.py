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

from judging.summaries import geometric_mean

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float
    n_arm: int
    """Repeats of the arm."""
    n_baseline: int
    """Repeats of the baseline."""


def ratio_interval(arm: Sequence[float], baseline: Sequence[float], resolution: float = 0.0) -> Interval | None:
    """Return arm / baseline as a ratio of geometric means with its 95 % interval; None below two values per side.

    Welch's t on the logarithms. `resolution` is the step to which values are rounded, in their own unit: billing counts
    whole seconds. The variance of that rounding, resolution^2 / 12, is added to each side. Three jobs that all bill
    41 s do not prove a spread of zero, and jobs that bill 40 or 41 s by chance do not prove a difference.
    """
    if min(len(arm), len(baseline)) < 2:
        return None
    rounding = (resolution / min(geometric_mean(arm), geometric_mean(baseline))) ** 2 / 12
    logs = difference_interval([math.log(v) for v in arm], [math.log(v) for v in baseline], rounding)
    assert logs is not None
    return Interval(math.exp(logs.estimate), math.exp(logs.low), math.exp(logs.high), len(arm), len(baseline))


def difference_interval(
    arm: Sequence[float],
    baseline: Sequence[float],
    rounding: float = 0.0,
    confidence: float = CONFIDENCE,
    least_spread: float = 0.0,
) -> Interval | None:
    """Return mean(arm) - mean(baseline) with its 95 % or other interval; None below two values per side.

    Welch's t (Biometrika 34, 1947): each side has its own variance, and the degrees of freedom are Satterthwaite's.
    `rounding` is the variance of the values' rounding and is added to both sides. `least_spread` is the least standard
    deviation of a side: a few equal values do not prove that all are equal. A pooled variance would require the
    same spread on both sides, but settings spread differently: for a noisy arm with fewer repeats (its first job found
    a cold cache) the interval would be wrong twice as often.
    """
    if min(len(arm), len(baseline)) < 2:
        return None
    sides = (arm, baseline)
    variances = [max(_sum_of_squares(side) / (len(side) - 1) + rounding, least_spread**2) / len(side) for side in sides]
    variance, estimate = math.fsum(variances), fmean(arm) - fmean(baseline)
    half_width = 0.0
    if variance > 0:
        parts = [(own / variance) ** 2 / (len(side) - 1) for own, side in zip(variances, sides, strict=True)]
        degrees_of_freedom = 1 / math.fsum(parts)
        half_width = float(stdtrit(degrees_of_freedom, (1 + confidence) / 2)) * math.sqrt(variance)
    return Interval(estimate, estimate - half_width, estimate + half_width, len(arm), len(baseline))


def paired_interval(
    arm: Sequence[float], baseline: Sequence[float], confidence: float = CONFIDENCE, least_spread: float = 0.0
) -> Interval | None:
    """Return the mean of arm - baseline over pairs with its 95 % or other interval; None below two pairs.

    Student's t on the differences. `least_spread` is the least standard deviation of a difference.
    """
    pairs = len(arm)
    if pairs < 2:
        return None
    differences = [mine - other for mine, other in zip(arm, baseline, strict=True)]
    spread = max(math.sqrt(_sum_of_squares(differences) / (pairs - 1)), least_spread)
    half_width = float(stdtrit(pairs - 1, (1 + confidence) / 2)) * spread / math.sqrt(pairs)
    estimate = fmean(differences)
    return Interval(estimate, estimate - half_width, estimate + half_width, pairs, pairs)


def _sum_of_squares(values: Sequence[float]) -> float:
    """Return the sum of squared distances from the mean."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)
