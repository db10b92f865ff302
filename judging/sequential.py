"""Looks at a comparison whose repeats arrive in waves, and the rule by which an arm stops.

An arm stops when its cost is shown to differ and its quality to be kept or lost, or when a gain worth having is ruled
out. docs/decisions/0024 compares this rule with others on recorded noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from judging.cost_ratio import cost_ratio
from judging.design import Design
from judging.failures import failure_note
from judging.intervals import Interval
from judging.non_inferiority import assess_quality
from judging.quality import Measure, Quality
from judging.result import Result, paired_scores, scores

Reason = Literal[
    "cheaper",
    "dearer",
    "no gain worth having",
    "quality lost",
    "quality not measured",
    "too many failures",
    "too few jobs succeeded",
    "all jobs fail",
    "last look",
]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The state of one arm at one look."""

    ratio: Interval
    """Cost of the trainings to come, arm over baseline, with the interval at the look's level, which allows for
    looking often."""
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
    cold: Interval | None = None
    """Ratio for one training with a cold compile cache; None unless an arm has jobs with and without a cold cache."""
    warm: Interval | None = None
    """Ratio for trainings with a warm compile cache, likewise."""
    cheaper_from: int | None = None
    """Fewest trainings, the first with a cold cache, for which the arm is cheaper; see `cost_ratio.CostRatio`."""

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
    """Return look `number`, from 0, at the results of two arms; None if a side has too few successful jobs.

    `measure` is the metric of the scores; None judges the cost alone. With `is_paired`, the scores of the same repeat
    are compared, if at least two repeats succeeded in both arms. The error is divided among `comparisons`.
    `resolution` is the step to which costs are rounded; see `cost_ratio`.
    """
    level = design.levels(comparisons)[number]
    cost = cost_ratio(arm, baseline, level=level, trainings=design.trainings, resolution=resolution)
    if cost is None:
        return None
    quality = _quality(measure, arm, baseline, design, number, is_paired=is_paired)
    is_unmeasured = measure is not None and quality is None
    note = failure_note(arm, baseline)
    result = Look(
        ratio=cost.ratio,
        level=level,
        least_ratio=cost.least,
        stops=None,
        quality=quality,
        failure_note=note,
        cold=cost.cold,
        warm=cost.warm,
        cheaper_from=cost.cheaper_from,
    )
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
