"""Looks at a comparison whose repeats arrive in waves, and the rule by which an arm stops.

An arm stops when its cost is shown to differ, or when a gain worth having is ruled out. docs/decisions/0130 compares
this rule with others on recorded noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from scipy.special import ndtri

from judging.intervals import CONFIDENCE, Interval, difference_interval
from judging.rank_test import rank_test
from judging.spending import look_levels
from judging.summaries import geometric_mean

Reason = Literal["cheaper", "dearer", "no gain worth having", "too few jobs succeeded", "last look"]

MIN_RANKED = 5
"""Repeats of each side from which ranks decide. With three against three, no order is rarer than 10 %."""
FUTILITY_LEVEL = 0.10
"""Probability of stopping an arm at one look although it has the least gain."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """The looks of a comparison. They are fixed before its first job, and kept when it is resumed or attached to."""

    looks: tuple[int, ...] = (3, 5, 7, 9)
    """Repeats of an arm at each look, ascending. The last is the most repeats."""
    least_gain: float = 0.05
    """Least gain worth having, as a share of the baseline's cost."""

    def levels(self, comparisons: int = 1) -> tuple[float, ...]:
        """Return the two-sided significance level of each look, if the error is divided among several comparisons.

        Together, the looks call two equal arms different in at most 5 % / `comparisons`.
        """
        return _levels(self.looks, comparisons)


@dataclass(frozen=True, kw_only=True)
class Look:
    """The state of one arm at one look."""

    ratio: Interval
    """Cost, arm over baseline, with the interval at the look's level: all looks' intervals hold together in 95 %."""
    level: float
    """Significance level of the look, two-sided."""
    least_ratio: float
    """Lower end of the one-sided 90 % interval of the ratio. A greater gain is ruled out."""
    stops: Reason | None
    """Reason for which the arm stops, or None if it continues."""


def look_at_arms(
    arms: Mapping[str, Sequence[float]],
    baseline: Sequence[float],
    design: Design,
    number: int,
    *,
    others: int = 0,
    resolution: float = 0.0,
) -> dict[str, Look]:
    """Return look `number` at several arms by label, without arms that have too few costs; see `look`.

    Holm's rule (1979) at each look: the error is divided among the comparisons that have shown no difference so far.
    `others` is the number of arms that stopped at an earlier look without one. Maurer and Bretz (2013) show that the
    error of all looks and arms together stays below 5 %.
    """
    remaining, looks = dict(arms), dict[str, Look]()
    while remaining:
        comparisons = len(remaining) + others
        new = {
            label: result
            for label, costs in remaining.items()
            if (result := look(costs, baseline, design, number, comparisons=comparisons, resolution=resolution))
        }
        looks |= new
        different = {label for label, result in new.items() if result.stops in ("cheaper", "dearer")}
        if not different:
            break
        remaining = {label: costs for label, costs in remaining.items() if label not in different}
    return looks


def look(
    arm: Sequence[float],
    baseline: Sequence[float],
    design: Design,
    number: int,
    *,
    comparisons: int = 1,
    resolution: float = 0.0,
) -> Look | None:
    """Return look `number`, from 0, at the positive costs of two arms; None below two values on a side.

    Ratios are of geometric means with Welch's t, and from `MIN_RANKED` repeats on medians of all pairs' ratios.
    The error is divided among `comparisons`. `resolution` is the step to which costs are rounded; see
    `intervals.ratio_interval`.
    """
    if min(len(arm), len(baseline)) < 2:
        return None
    level = design.levels(comparisons)[number]
    ratio, least_ratio = _ratios(arm, baseline, level, resolution)
    return Look(
        ratio=ratio,
        level=level,
        least_ratio=least_ratio,
        stops=_reason(ratio, least_ratio, design, is_last=number == len(design.looks) - 1),
    )


def _ratios(arm: Sequence[float], baseline: Sequence[float], level: float, resolution: float) -> tuple[Interval, float]:
    """Return the ratio with its interval, and the lower end of its one-sided interval."""
    logs, others = [math.log(cost) for cost in arm], [math.log(cost) for cost in baseline]
    counts = len(arm), len(baseline)
    rounding = (resolution / min(geometric_mean(arm), geometric_mean(baseline))) ** 2 / 12
    ranks = rank_test(logs, others)
    if min(counts) >= MIN_RANKED and ranks.fits(level / 2):
        # Rounded costs are often equal: their ranks show less spread than the costs have.
        error = math.sqrt(rounding * (1 / len(arm) + 1 / len(baseline)))
        wider = float(ndtri(1 - level / 2)) * error
        least = ranks.low(FUTILITY_LEVEL) - float(ndtri(1 - FUTILITY_LEVEL)) * error
        ends = (ranks.estimate, ranks.low(level / 2) - wider, ranks.high(level / 2) + wider, least)
    else:
        both = difference_interval(logs, others, rounding, 1 - level)
        one_sided = difference_interval(logs, others, rounding, 1 - 2 * FUTILITY_LEVEL)
        assert both is not None
        assert one_sided is not None
        ends = (both.estimate, both.low, both.high, one_sided.low)
    estimate, low, high, least = map(math.exp, ends)
    return Interval(estimate, low, high, *counts), least


def _reason(ratio: Interval, least_ratio: float, design: Design, *, is_last: bool) -> Reason | None:
    if ratio.high < 1:
        return "cheaper"
    if ratio.low > 1:
        return "dearer"
    if least_ratio > 1 - design.least_gain:
        return "no gain worth having"
    return "last look" if is_last else None


@cache
def _levels(looks: tuple[int, ...], comparisons: int) -> tuple[float, ...]:
    return look_levels(looks, (1 - CONFIDENCE) / comparisons)
