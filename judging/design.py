"""The looks of a comparison whose repeats arrive in waves, and their significance levels.

Testing at 5 % after every wave would call equal settings different in more than 5 % of comparisons. So the levels of
all looks are fixed before the first job, and each look spends a part of the error that is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import ndtr

from judging.intervals import CONFIDENCE
from judging.non_inferiority import ERROR

RULES = 4
"""Version of the rules by which comparisons are judged. docs/judging.md lists them."""
MIN_SEEDS = 5
"""Fewest seeds that can pass an arm that learns in another way, at the last look alone: a few of its seeds may diverge,
and three seeds often show none of them."""
_GRID = 301
"""Points of the numerical integration, an odd number. With twice as many, levels change by less than 1e-9."""
_REACH = 6.0
"""Standard deviations up to which the integration goes."""
EARLY = 3.0
"""Parameter of `early_spending`; docs/decisions/0024 compares values."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """The looks of a comparison. They are fixed before its first job, and kept when it is resumed or attached to."""

    looks: tuple[int, ...] = (3, 5, 7, 9)
    """Repeats of an arm at each look, ascending. The last is the most repeats."""
    least_gain: float = 0.05
    """Least gain worth having, as a share of the baseline's cost."""
    margin: float | None = None
    """Largest acceptable loss of quality, in the metric's unit; None takes the metric's own."""
    trainings: int = 1
    """Number of trainings to come, of which the first starts with a cold compile cache. The report estimates what they
    cost; the verdict is for a warm cache."""
    when_disturbed: Literal["keep", "repeat"] = "keep"
    """`repeat` runs a successful job again, once, if others disturbed its measurement. The second job then counts in
    place of the first, whatever its result."""
    rules: int = RULES
    families: int = 1
    """Comparisons with other baselines among which the error is divided too."""

    def levels(self, comparisons: int = 1) -> tuple[float, ...]:
        """Return the two-sided significance level of each look, if the error is divided among several comparisons.

        Together, the looks call two equal arms different in at most 5 % / `comparisons`.
        """
        return look_levels(self.looks, (1 - CONFIDENCE) / (comparisons * self.families))

    def quality_levels(self) -> tuple[float, ...]:
        """Return the one-sided significance level of each look at the quality.

        Together, the looks pass an arm that is worse by the margin in at most 5 %.
        """
        return tuple(level / 2 for level in look_levels(self.looks, 2 * ERROR))


def early_spending(share: float, error: float) -> float:
    """Return the error to spend until a look at `share` of the planned jobs (Hwang, Shih and DeCani 1990, gamma 3).

    Two thirds of the error are spent at the first of three looks, so that a clear difference needs few jobs.
    """
    return error * math.expm1(-EARLY * share) / math.expm1(-EARLY)


@cache
def look_levels(
    looks: tuple[int, ...], error: float = 0.05, spending: Callable[[float, float], float] = early_spending
) -> tuple[float, ...]:
    """Return the two-sided significance level of each look.

    `looks` are the repeats of an arm at each look, ascending; the last is the most. The levels together have the
    probability `error` of calling two equal settings different. `spending` has the share of the planned jobs and the
    whole error, and returns the error to spend until then. Exact for normal statistics with independent
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
