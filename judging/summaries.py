"""Summaries of a few repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True)
class Summary:
    """Median, extremes and count. With few repeats, extremes are more honest than a standard deviation."""

    median: float
    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    n: int
    """Number of values."""


def summary(values: Sequence[float]) -> Summary | None:
    """Return the summary of the finite values. If no value is finite, return None."""
    finite = [value for value in values if math.isfinite(value)]
    return Summary(median(finite), min(finite), max(finite), len(finite)) if finite else None


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return math.exp(fmean(math.log(value) for value in values))


def gain_percent(ratio: float) -> float:
    """Return a ratio as a change in percent: 1.25 -> 25, 0.8 -> -20."""
    return 100 * (ratio - 1)
