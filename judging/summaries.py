"""Summaries of a few repeats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from statistics import fmean, median

MIN_RANKED = 5
"""Values from which ranks decide. With three against three, no order is rarer than 10 %."""


@dataclass(frozen=True)
class Summary:
    """Typical value, extremes and count. With few repeats, extremes are more honest than a standard deviation."""

    median: float
    low: float
    high: float
    n: int
    typical: float
    """Typical value that reports show; see `typical`."""


def summary(values: Sequence[float], location: Callable[[Sequence[float]], float] | None = None) -> Summary | None:
    """Return the summary of the finite values. If no value is finite, return None.

    `location` computes the typical value; None takes `typical`.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    return Summary(median(finite), min(finite), max(finite), len(finite), (location or typical)(finite))


def typical(values: Sequence[float]) -> float:
    """Return the typical value by which verdicts compare costs: the ratio of two of them is a verdict's ratio.

    The geometric mean, and from `MIN_RANKED` values on the median of the geometric means of all pairs, which a few slow
    jobs do not move. Values that are not all positive have the arithmetic mean and the median of arithmetic means.
    """
    if len(values) > 1 and min(values) > 0:
        return math.exp(location([math.log(value) for value in values]))
    return location(values)


def location(values: Sequence[float]) -> float:
    """Return the mean, or from `MIN_RANKED` values on the median of the means of all pairs (Hodges and Lehmann 1963).

    A pair may be a value with itself.
    """
    if len(values) < MIN_RANKED:
        return fmean(values)
    return median((one + other) / 2 for one, other in combinations_with_replacement(values, 2))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return math.exp(fmean(math.log(value) for value in values))


def gain_percent(ratio: float) -> float:
    """Return a ratio as a change in percent: 1.25 -> 25, 0.8 -> -20."""
    return 100 * (ratio - 1)
