"""Significance levels of the looks of a group-sequential test: each look spends a part of the error that is allowed.

Testing at 5 % after every wave would call equal settings different in more than 5 % of comparisons. So the levels of
all looks are fixed before the first job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr

_GRID = 301
"""Points of the numerical integration, an odd number. With twice as many, levels change by less than 1e-9."""
_REACH = 6.0
"""Standard deviations up to which the integration goes."""


Spending = Callable[[float, float], float]
"""Function from the share of the planned jobs and the whole error to the error that is spent until then."""

EARLY = 3.0
"""Parameter of `early_spending`; docs/decisions/0024 compares values."""


def early_spending(share: float, error: float) -> float:
    """Return the error to spend until a look at `share` of the planned jobs (Hwang, Shih and DeCani 1990, gamma 3).

    Two thirds of the error are spent at the first of three looks, so that a clear difference needs few jobs.
    """
    return error * math.expm1(-EARLY * share) / math.expm1(-EARLY)


def pocock_spending(share: float, error: float) -> float:
    """Return the error to spend until a look at `share` of the planned jobs (Lan and DeMets 1983).

    It spends nearly evenly, as Pocock's bounds (1977) do. Version 2 of the rules spent in this way.
    """
    return error * math.log(1 + (math.e - 1) * share)


def look_levels(looks: Sequence[int], error: float = 0.05, spending: Spending = early_spending) -> tuple[float, ...]:
    """Return the two-sided significance level of each look.

    `looks` are the repeats of an arm at each look, ascending; the last is the most. The levels together have the
    probability `error` of calling two equal settings different. Exact for normal statistics with independent
    increments (Armitage, McPherson and Rowe 1969); tests with few repeats use the levels for their own p-values
    (Jennison and Turnbull 2000, chapter 4).
    """
    levels, spent = [], 0.0
    points = np.zeros(1)
    weights = np.ones(1)
    previous = 0.0
    for repeats in looks:
        share = repeats / looks[-1]
        step = math.sqrt(share - previous)
        target = (spending(share, error) - spent) / 2
        bound = _bound(points, weights, step, target)
        levels.append(float(2 * ndtr(-bound / math.sqrt(share))))
        points, weights = _continued(points, weights, step, bound)
        spent, previous = spending(share, error), share
    return tuple(levels)


def _bound(points: np.ndarray, weights: np.ndarray, step: float, target: float) -> float:
    """Return the sum that the next look exceeds with probability `target`. `weights` belong to the sums `points`."""
    low, high = 0.0, _REACH * (step + float(np.abs(points).max()) / _REACH + 1)
    for _ in range(60):
        middle = (low + high) / 2
        exceeds = float((weights * ndtr((points - middle) / step)).sum())
        low, high = (middle, high) if exceeds > target else (low, middle)
    return (low + high) / 2


def _continued(points: np.ndarray, weights: np.ndarray, step: float, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the next look's sums within the bound, with their weights."""
    sums = np.linspace(-bound, bound, _GRID)
    steps = (sums[:, None] - points[None, :]) / step
    density = np.exp(-(steps**2) / 2) @ weights / (step * math.sqrt(2 * math.pi))
    simpson = np.ones(_GRID)
    simpson[1:-1:2], simpson[2:-1:2] = 4, 2
    return sums, density * simpson * (sums[1] - sums[0]) / 3
