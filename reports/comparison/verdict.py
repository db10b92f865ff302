"""Is an arm cheaper than the baseline, at the same quality, for the same work?

The rules, in order; the first that applies decides:

1. *not comparable*: the jobs did not do the same work, see `work.unequal`, in a way that was not allowed to differ, or
   a compiler did not run (or ran) against what was asked for.
2. *inconclusive*: fewer than two successful repeats on either side.
3. *inconclusive*: all jobs were to end at a target, and not every one of the baseline's reached it.
4. *not cheaper*: they were, and not every one of the arm's reached it.
5. *not cheaper*: the 95 % interval of the ratio of what was paid lies at or above 1; that is billable instance seconds,
   or dollars where the arms ran on machines of different types.
6. *inconclusive*: that interval holds 1.
7. *inconclusive*: the quality is not kept, see `quality`; jobs that reached the same target kept it.
8. *cheaper*: the interval lies below 1 and the quality is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Literal

from judging.intervals import Interval, ratio_interval
from judging.quality import MEASURES, Measure, Quality, compare_quality
from judging.summaries import geometric_mean
from reports.comparison.arms import Arm, finite
from reports.comparison.equal_work import (
    PAID,
    SECONDS,
    Currency,
    Kind,
    Target,
    currency,
    not_reached,
    target_of,
    unequal,
)

Outcome = Literal["cheaper", "not cheaper", "inconclusive", "not comparable"]


@dataclass(frozen=True)
class Verdict:
    """What the repeats say of one arm against the baseline."""

    outcome: Outcome
    reason: str
    """Why not more could be said, or why no ratio; empty where the ratio says it all."""
    ratio: Interval | None = None
    """What was paid, arm over baseline."""
    quality: Quality | None = None
    currency: Currency = SECONDS
    """In what it was paid."""
    target: Target | None = None
    """The quality that all jobs were to reach, and to end at."""
    despite: tuple[str, ...] = ()
    """In what the work differs, and was allowed to."""
    allowable: tuple[Kind, ...] = ()
    """What would have to be allowed to compare arms that are not comparable; empty where nothing helps."""


def judge(arm: Arm, baseline: Arm, measure: Measure | None, allowed: Set[Kind] = frozenset()) -> Verdict:
    """Return the verdict on `arm` by the rules above; the work may differ in the kinds that are `allowed`."""
    differences = unequal(arm, baseline)
    refused = [difference for difference in differences if difference.kind not in allowed]
    if doubts := _against_their_setting(arm, baseline):
        return Verdict("not comparable", "; ".join([*doubts, *(difference.told for difference in refused)]))
    if refused:
        kinds = tuple(dict.fromkeys(difference.kind for difference in differences))
        return Verdict("not comparable", "; ".join(difference.told for difference in refused), allowable=kinds)
    return replace(_judge(arm, baseline, measure), despite=tuple(difference.told for difference in differences))


def _judge(arm: Arm, baseline: Arm, measure: Measure | None) -> Verdict:
    unit = currency(arm, baseline)
    paid, paid_baseline = arm.positive(unit.column), baseline.positive(unit.column)
    ratio = ratio_interval(paid, paid_baseline, _resolution(arm, baseline, unit))
    if ratio is None:
        return Verdict("inconclusive", _too_few(arm, baseline))
    if target := target_of(arm, baseline):
        return _to_target(ratio, arm, baseline, unit, target)
    kept = quality(arm, baseline, measure) if measure else None
    outcome, reason = _outcome(ratio, _quality_reason(kept, arm, baseline, measure))
    return Verdict(outcome, reason, ratio, kept, unit)


def _to_target(ratio: Interval, arm: Arm, baseline: Arm, unit: Currency, target: Target) -> Verdict:
    """Return the verdict on arms that end at a target: who has reached it has the quality, and paid its bill for it."""
    sides: tuple[tuple[Arm, Outcome], ...] = ((baseline, "inconclusive"), (arm, "not cheaper"))
    for side, outcome in sides:
        if missed := not_reached(side):
            told = f"{len(missed)} of {len(side.headline)} jobs of “{side.label}” did not reach {target}"
            return Verdict(outcome, told, currency=unit, target=target)
    outcome, reason = _outcome(ratio, quality_reason="")
    return Verdict(outcome, reason, ratio, currency=unit, target=target)


def _outcome(ratio: Interval, quality_reason: str) -> tuple[Outcome, str]:
    if ratio.low >= 1:
        return "not cheaper", ""
    if ratio.high >= 1:
        return "inconclusive", "but the interval holds no change"
    return ("inconclusive", quality_reason) if quality_reason else ("cheaper", "")


def _against_their_setting(*arms: Arm) -> list[str]:
    return [f"“{arm.label}” is not what it says: {doubt}" for arm in arms for doubt in arm.compiler_doubts]


def measure_of(arms: Iterable[Arm]) -> Measure | None:
    """Return the measure of quality that a comparison uses, or None when no job has any."""
    jobs = [job for arm in arms for job in arm.succeeded]
    return next((measure for measure in MEASURES if finite(jobs, measure.column)), None)


def quality(arm: Arm, baseline: Arm, measure: Measure) -> Quality | None:
    """Return the arm's quality against the baseline's; None if a compared job has no finite value."""
    values, others = arm.values(measure.column), baseline.values(measure.column)
    if not values or len(values) < len(arm.headline) or len(others) < len(baseline.headline):
        return None
    return compare_quality(measure, values, others)


def _quality_reason(kept: Quality | None, arm: Arm, baseline: Arm, measure: Measure | None) -> str:
    if measure is None:
        return "but no quality was measured"
    if kept is None:
        jobs = [*arm.headline, *baseline.headline]
        missing = len(jobs) - len(finite(jobs, measure.column))
        return f"but {missing} of {len(jobs)} jobs have no finite {measure.label}"
    if kept.kept:
        return ""
    if kept.shown_worse:
        return f"but the {measure.label} is worse"
    return f"but the {measure.label} may be worse: more repeats would tell"


def _too_few(arm: Arm, baseline: Arm) -> str:
    counts = [f"“{side.label}” has {_repeats(side)}" for side in (arm, baseline) if len(side.positive(PAID)) < 2]
    return " and ".join(counts) + "; a verdict needs two or more of each"


def _repeats(arm: Arm) -> str:
    n = len(arm.positive(PAID))
    state = f" with a {arm.cache_state} cache" if arm.asides else ""
    return f"{n or 'no'} successful {'repeat' if n == 1 else 'repeats'}{state}"


def _resolution(arm: Arm, baseline: Arm, unit: Currency) -> float:
    """Return 1 s, or what it costs, where every job bills whole seconds, as at SageMaker; else 0."""
    sides = [side for side in (arm, baseline) if side.positive(PAID) and side.positive(unit.column)]
    if not sides or any(value != round(value) for side in sides for value in side.positive(PAID)):
        return 0.0
    fewest, least = (min(geometric_mean(side.positive(name)) for side in sides) for name in (PAID, unit.column))
    return least / fewest
