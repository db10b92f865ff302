"""Looks at a comparison whose repeats arrive in waves, and the rule by which an arm stops.

An arm stops when its cost is shown to differ and its quality to be kept or lost, or when a gain worth having is ruled
out. docs/decisions/0130 compares this rule with others on recorded noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import ndtri

from judging.design import Design
from judging.failures import failure_note, surcharge
from judging.intervals import Interval, difference_interval
from judging.non_inferiority import assess_quality
from judging.quality import Measure, Quality
from judging.rank_test import RankTest, rank_test
from judging.result import Result, costs, paired_scores, scores
from judging.summaries import geometric_mean

Reason = Literal[
    "cheaper",
    "dearer",
    "no gain worth having",
    "quality lost",
    "quality not measured",
    "too many failures",
    "too few jobs succeeded",
    "last look",
]

MIN_RANKED = 5
"""Repeats of each side from which ranks decide. With three against three, no order is rarer than 10 %."""
FUTILITY_LEVEL = 0.10
"""Probability of stopping an arm at one look although it has the least gain."""
LEAST_SPREAD = 0.001
"""Least standard deviation of the logarithm of a cost. No recorded job repeats more exactly, so a few equal costs do
not prove that all are equal."""


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
    quality: Quality | None = None
    """Quality against the baseline's; None if it is not measured."""
    failure_note: str = ""
    """Why the arm fails too often to be called cheaper; empty if it does not."""

    @property
    def cost_outcome(self) -> Literal["cheaper", "dearer", "undecided"]:
        """Outcome by the cost alone."""
        return "cheaper" if self.ratio.high < 1 else "dearer" if self.ratio.low > 1 else "undecided"


def look_at_arms(
    arms: Mapping[str, Sequence[Result]],
    baseline: Sequence[Result],
    design: Design,
    number: int,
    *,
    measure: Measure | None = None,
    paired: Set[str] = frozenset(),
    others: int = 0,
    resolution: float = 0.0,
) -> dict[str, Look]:
    """Return look `number` at several arms by label, without arms that have too few results; see `look`.

    Holm's rule (1979) at each look: the error is divided among the comparisons that have shown no difference so far.
    `others` is the number of arms that stopped at an earlier look without one. Maurer and Bretz (2013) show that the
    error of all looks and arms together stays below 5 %.
    """
    remaining, looks = dict(arms), dict[str, Look]()
    while remaining:
        comparisons = len(remaining) + others
        new = {
            label: result
            for label, results in remaining.items()
            if (
                result := look(
                    results,
                    baseline,
                    design,
                    number,
                    measure=measure,
                    is_paired=label in paired,
                    comparisons=comparisons,
                    resolution=resolution,
                )
            )
        }
        looks |= new
        different = {label for label, result in new.items() if result.cost_outcome != "undecided"}
        if not different:
            break
        remaining = {label: results for label, results in remaining.items() if label not in different}
    return looks


def look(
    arm: Sequence[Result],
    baseline: Sequence[Result],
    design: Design,
    number: int,
    *,
    measure: Measure | None = None,
    is_paired: bool = False,
    comparisons: int = 1,
    resolution: float = 0.0,
) -> Look | None:
    """Return look `number`, from 0, at the results of two arms; None below two successful jobs on a side.

    Ratios are of geometric means with Welch's t, and from `MIN_RANKED` repeats on medians of all pairs' ratios. Failed
    jobs add their cost to that of the successful ones, and the interval covers the ratio with and without them: their
    number is known too badly for an interval of its own.

    `measure` is the metric of the scores; None judges the cost alone. With `is_paired`, the scores of the same repeat
    are compared, if at least two repeats succeeded in both arms. The error is divided among `comparisons`.
    `resolution` is the step to which costs are rounded; see `intervals.ratio_interval`.
    """
    mine, others = costs(arm), costs(baseline)
    if min(len(mine), len(others)) < 2:
        return None
    level = design.levels(comparisons)[number]
    ratio, least_ratio = _with_failures(*_ratios(mine, others, level, resolution), surcharge(arm) / surcharge(baseline))
    quality = _quality(measure, arm, baseline, design, number, is_paired=is_paired)
    is_unmeasured = measure is not None and quality is None
    note = failure_note(arm, baseline)
    result = Look(ratio=ratio, level=level, least_ratio=least_ratio, stops=None, quality=quality, failure_note=note)
    reason = _reason(result, design, is_unmeasured=is_unmeasured)
    is_last = number == len(design.looks) - 1
    return replace(result, stops=reason or ("last look" if is_last else None))


def _quality(
    measure: Measure | None,
    arm: Sequence[Result],
    baseline: Sequence[Result],
    design: Design,
    number: int,
    *,
    is_paired: bool,
) -> Quality | None:
    """Return the quality; None if it is not measured for every successful job."""
    sides = [scores(side) for side in (arm, baseline)]
    if measure is None or any(
        len(values) < sum(each.succeeded for each in side) for values, side in zip(sides, (arm, baseline), strict=True)
    ):
        return None
    level = design.quality_levels()[number]
    pairs = paired_scores(arm, baseline)
    if is_paired and len(pairs[0]) > 1:
        return assess_quality(measure, *pairs, level=level, margin=design.margin, is_paired=True)
    return assess_quality(measure, *sides, level=level, margin=design.margin)


def _ratios(arm: Sequence[float], baseline: Sequence[float], level: float, resolution: float) -> tuple[Interval, float]:
    """Return the ratio with its interval, and the lower end of its one-sided interval."""
    logs, others = [math.log(cost) for cost in arm], [math.log(cost) for cost in baseline]
    rounding = (resolution / min(geometric_mean(arm), geometric_mean(baseline))) ** 2 / 12
    ranks = rank_test(logs, others)
    is_ranked = min(len(arm), len(baseline)) >= MIN_RANKED and ranks.fits(level / 2)
    ends = _by_ranks(ranks, level, rounding) if is_ranked else _by_means(logs, others, level, rounding)
    estimate, low, high, least = map(math.exp, ends)
    return Interval(estimate, low, high, len(arm), len(baseline)), least


def _by_means(
    logs: Sequence[float], others: Sequence[float], level: float, rounding: float
) -> tuple[float, float, float, float]:
    """Return the difference of the logarithms, the ends of its interval, and the one-sided lower end: by Welch's t."""
    both = difference_interval(logs, others, rounding, 1 - level, LEAST_SPREAD)
    one_sided = difference_interval(logs, others, rounding, 1 - 2 * FUTILITY_LEVEL, LEAST_SPREAD)
    assert both is not None
    assert one_sided is not None
    return both.estimate, both.low, both.high, one_sided.low


def _by_ranks(ranks: RankTest, level: float, rounding: float) -> tuple[float, float, float, float]:
    """Return the same as `_by_means`, by ranks.

    Rounded costs are often equal, and their ranks show less spread than the costs have: the error of rounding is added.
    """
    share = 1 / ranks.n_arm + 1 / ranks.n_baseline
    rounded, least = math.sqrt(rounding * share), LEAST_SPREAD * math.sqrt(share)
    quantile, one_sided = float(ndtri(1 - level / 2)), float(ndtri(1 - FUTILITY_LEVEL))
    return (
        ranks.estimate,
        min(ranks.low(level / 2) - quantile * rounded, ranks.estimate - quantile * least),
        max(ranks.high(level / 2) + quantile * rounded, ranks.estimate + quantile * least),
        min(ranks.low(FUTILITY_LEVEL) - one_sided * rounded, ranks.estimate - one_sided * least),
    )


def _with_failures(ratio: Interval, least_ratio: float, factor: float) -> tuple[Interval, float]:
    """Return the ratio of the costs of usable models, given the ratio of the costs of successful jobs."""
    wider = Interval(
        ratio.estimate * factor,
        ratio.low * min(factor, 1),
        ratio.high * max(factor, 1),
        ratio.n_arm,
        ratio.n_baseline,
    )
    return wider, least_ratio * min(factor, 1)


def _reason(result: Look, design: Design, *, is_unmeasured: bool) -> Reason | None:
    """Return why the arm stops before the last look, if it does."""
    if result.cost_outcome == "dearer":
        return "dearer"
    if result.least_ratio > 1 - design.least_gain and result.cost_outcome != "cheaper":
        return "no gain worth having"
    if result.quality and result.quality.shown_beyond:
        return "quality lost"
    if result.failure_note:
        return "too many failures"
    if is_unmeasured:
        return "quality not measured"
    if result.cost_outcome == "cheaper" and (result.quality is None or result.quality.kept):
        return "cheaper"
    return None
