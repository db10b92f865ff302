"""Looks at a comparison whose repeats arrive in waves, and the rule by which an arm stops.

An arm stops when its cost is shown to differ and its quality to be kept or lost, or when a gain worth having is ruled
out. docs/decisions/0024 compares this rule with others on recorded noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from judging.cost_ratio import CostRatio, cost_ratio
from judging.design import MIN_SEEDS, Design
from judging.non_inferiority import ERROR, assess_quality
from judging.quality import Measure, Quality
from judging.result import Result, paired_scores, scores, unscored

MOST_FAILURES = 1 / 3
"""Largest share of failed jobs with which an arm can be called cheaper: 1 of 3, 3 of 9."""
CHANCE = 0.05
"""An arm that fails as much more often than the baseline has this probability if both fail equally often."""
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
class Look(CostRatio):
    """The state of one arm at one look."""

    level: float
    """Significance level of the look, two-sided."""
    stops: Reason | None = None
    """Reason for which the arm stops, or None if it continues."""
    quality: Quality | None = None
    """Quality against the baseline's; None if it is not measured."""
    failure_note: str = ""
    """Why the arm fails too often to be called cheaper; empty if it does not."""
    unscored: int = 0
    """Successful jobs of the arm without a finite score, if all of the baseline's have one."""

    @property
    def cost_outcome(self) -> Literal["cheaper", "dearer", "undecided"]:
        """Outcome by the cost alone. The bill is a sum: an arm whose mean bill is not lower is not cheaper."""
        if self.ratio.high < 1 and self.bills < 1:
            return "cheaper"
        return "dearer" if self.ratio.low > 1 and self.bills > 1 else "undecided"


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
        at = partial(look, measure=measure, comparisons=len(remaining) + others, resolution=resolution)
        new = {
            label: result
            for label, results in remaining.items()
            if (result := at(results, baseline, design, number, is_paired=label in paired))
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
    quality = None
    if measure and not unscored([*arm, *baseline]):
        quality = _quality(measure, arm, baseline, design, number, is_paired=is_paired)
    result = Look(
        **vars(cost),
        level=level,
        quality=quality,
        failure_note=failure_note(arm, baseline),
        unscored=unscored(arm) if measure and not unscored(baseline) else 0,
    )
    reason = _reason(result, design, is_unmeasured=measure is not None and quality is None)
    is_last = number == len(design.looks) - 1
    return replace(result, stops=reason or ("last look" if is_last else None))


def _quality(
    measure: Measure, arm: Sequence[Result], baseline: Sequence[Result], design: Design, number: int, *, is_paired: bool
) -> Quality | None:
    """Return the quality, of arms of which every successful job has a score."""
    level, pairs, sides = design.quality_levels()[number], paired_scores(arm, baseline), (scores(arm), scores(baseline))
    is_paired = is_paired and len(pairs[0]) > 1
    known = [each.commonest for each in (*arm, *baseline) if math.isfinite(each.commonest)]

    values, commonest = pairs if is_paired else sides, max(known, default=math.nan)
    at = partial(assess_quality, measure, *values, margin=design.margin, is_paired=is_paired, commonest=commonest)
    quality = at(level=level)
    if quality is None or is_paired:
        return quality
    # Only the last look can pass an arm that learns in another way, so it has the whole error for that.
    passing = at(level=ERROR) if number == len(design.looks) - 1 and quality.seeds >= MIN_SEEDS else None
    return replace(passing, shown_beyond=quality.shown_beyond) if passing else replace(quality, kept=False)


def _reason(result: Look, design: Design, *, is_unmeasured: bool) -> Reason | None:
    """Return why the arm stops before the last look, if it does."""
    if result.cost_outcome == "dearer":
        return "dearer"
    if result.unscored or (result.quality and result.quality.shown_beyond):
        return "quality lost"
    if result.failure_note:
        return "too many failures"
    if result.least_ratio > 1 - design.least_gain and result.cost_outcome != "cheaper":
        return "no gain worth having"
    if is_unmeasured:
        return "quality not measured"
    if result.cost_outcome == "cheaper" and (result.quality is None or result.quality.kept):
        return "cheaper"
    return None


def failure_note(arm: Sequence[Result], baseline: Sequence[Result]) -> str:
    """Return why the arm fails too often to be called cheaper, or an empty text."""
    failed, jobs = _failed(arm), len(arm)
    if failed > MOST_FAILURES * jobs:
        return f"{failed} of {jobs} jobs failed, more than a third"
    others = _failed(baseline)
    if fails_more(failed, jobs, others, len(baseline)) <= CHANCE:
        return f"{failed} of {jobs} jobs failed, against {others} of {len(baseline)}: more than chance explains"
    return ""


def fails_more(failed: int, jobs: int, failed_baseline: int, jobs_baseline: int) -> float:
    """Return the one-sided p-value of Fisher's exact test (1934) that the arm fails no more often than the baseline."""
    total, all_failed = jobs + jobs_baseline, failed + failed_baseline
    most = min(all_failed, jobs)
    ways = sum(math.comb(jobs, k) * math.comb(jobs_baseline, all_failed - k) for k in range(failed, most + 1))
    return ways / math.comb(total, all_failed)


def _failed(results: Sequence[Result]) -> int:
    return sum(not result.succeeded for result in results)
