"""Verdict on an arm: is it cheaper than the baseline, at the same quality, for the same work?

A comparison that ran in waves is judged by its last look: after the first three of these rules come those of
`look_verdict`.
For jobs that did not run in waves, and for groups from before there were any, the first of these rules that applies
decides:

1. *not comparable*: the jobs did not do the same work (see `equal_work.work_differences`) in a way that was not
   allowed, or a compiler ran although the setting says otherwise, or did not run.
2. *inconclusive*: all jobs train to a target, and one of the baseline's did not reach it.
3. *not cheaper*: all jobs train to a target, and one of the arm's did not reach it.
4. *inconclusive*: fewer than two successful repeats on either side.
5. *not cheaper*: the 95 % interval of the cost ratio lies at or above 1. The cost is billable instance seconds, or
   dollars if the arms ran on different instance types.
6. *inconclusive*: that interval includes 1.
7. *inconclusive*: the quality is not kept (see `judging.quality`). Jobs that reached the same target kept it.
8. *cheaper*: the interval lies below 1 and the quality is kept.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from judging.intervals import Interval, ratio_interval
from judging.quality import Measure, Quality, compare_quality
from judging.summaries import geometric_mean
from judging.waves import Progress
from reports.comparison.arms import Arm, Job, finite
from reports.comparison.cache_verdicts import CacheVerdicts, cache_verdicts
from reports.comparison.equal_work import (
    BILLABLE,
    SECONDS,
    Currency,
    Kind,
    Target,
    currency,
    not_reached,
    target_of,
    work_differences,
)
from reports.comparison.look_verdict import INCLUDES_ZERO, Outcome, outcome_of
from reports.comparison.looks import evaluation_scores, last_looks
from reports.model.wording import counted, joined


@dataclass(frozen=True)
class Verdict:
    """Verdict on one arm against the baseline."""

    outcome: Outcome
    reason: str
    """Reason for an inconclusive verdict or a missing ratio; empty if the ratio alone explains the verdict."""
    ratio: Interval | None = None
    """Cost, arm over baseline."""
    quality: Quality | None = None
    currency: Currency = SECONDS
    """Unit of the cost."""
    target: Target | None = None
    """Quality at which all jobs were to end."""
    misses_target: bool = False
    """True if a job of the arm did not reach the target, although all jobs of the baseline did."""
    despite: tuple[str, ...] = ()
    """Differences in the work that were allowed."""
    allowable: tuple[Kind, ...] = ()
    """Kinds of differences that must be allowed to compare the arms; empty if allowing them does not help."""
    caches: CacheVerdicts | None = None
    """Ratios for each state of the compile cache; None if all jobs started with the same one."""


def judge(
    arm: Arm,
    baseline: Arm,
    measure: Measure | None,
    allowed: Set[Kind] = frozenset(),
    progress: Progress | None = None,
) -> Verdict:
    """Return the verdict on `arm` by the rules above; differences of the `allowed` kinds are accepted.

    With the `progress` of a comparison in waves, its last look at the arm decides.
    """
    differences = work_differences(arm, baseline)
    refused = [difference for difference in differences if difference.kind not in allowed]
    if warnings := _compiler_warnings(arm, baseline):
        return Verdict("not comparable", "; ".join([*warnings, *map(str, refused)]))
    if refused:
        kinds = tuple(dict.fromkeys(difference.kind for difference in differences))
        return Verdict("not comparable", "; ".join(map(str, refused)), allowable=kinds)
    verdict = _judge_looks(arm, baseline, measure, progress) if progress else _judge(arm, baseline, measure)
    return replace(verdict, despite=tuple(map(str, differences)))


def _judge(arm: Arm, baseline: Arm, measure: Measure | None) -> Verdict:
    unit, target = currency(arm, baseline), target_of(arm, baseline)
    if target and (verdict := _missed_target(arm, baseline, unit, target)):
        return verdict
    cost, baseline_cost = arm.positive(unit.column), baseline.positive(unit.column)
    ratio = ratio_interval(cost, baseline_cost, _resolution(arm, baseline, unit))
    if ratio is None:
        return Verdict("inconclusive", _too_few(arm, baseline))
    if target:
        outcome, reason = _outcome(ratio, quality_reason="")
        return Verdict(outcome, reason, ratio, currency=unit, target=target)
    kept = quality(arm, baseline, measure) if measure else None
    outcome, reason = _outcome(ratio, _quality_reason(kept, arm, baseline, measure))
    return Verdict(outcome, reason, ratio, kept, unit)


def _judge_looks(arm: Arm, baseline: Arm, measure: Measure | None, progress: Progress) -> Verdict:
    unit, target = currency(arm, baseline), target_of(arm, baseline)
    if target and (verdict := _missed_target(arm, baseline, unit, target)):
        return verdict
    look = last_looks(progress).get(arm.label)
    if look is None:
        has_ended = arm.label in progress.stopped
        return Verdict("inconclusive", _too_few(arm, baseline) if has_ended else "the first wave has not ended")
    design = progress.design
    missing = _missing_quality([*arm.succeeded, *baseline.succeeded], measure)
    outcome, reason = outcome_of(look, missing, design.least_gain, has_target=target is not None)
    caches = cache_verdicts(look, design.trainings)
    return Verdict(outcome, reason, look.ratio, look.quality, unit, target, caches=caches)


def _missed_target(arm: Arm, baseline: Arm, unit: Currency, target: Target) -> Verdict | None:
    """Return the verdict on arms whose jobs did not all reach their target; None if they did."""
    sides: tuple[tuple[Arm, Outcome], ...] = ((baseline, "inconclusive"), (arm, "not cheaper"))
    for side, outcome in sides:
        if missed := not_reached(side):
            reason = f"{len(missed)} of {counted(len(side.succeeded), 'job')} of “{side.label}” did not reach {target}"
            return Verdict(outcome, reason, currency=unit, target=target, misses_target=side is arm)
    return None


def _outcome(ratio: Interval, quality_reason: str) -> tuple[Outcome, str]:
    if ratio.low >= 1:
        return "not cheaper", ""
    if ratio.high >= 1:
        return "inconclusive", INCLUDES_ZERO
    return ("inconclusive", quality_reason) if quality_reason else ("cheaper", "")


def _compiler_warnings(*arms: Arm) -> list[str]:
    return [f"“{arm.label}” does not match its setting: {each}" for arm in arms for each in arm.compiler_warnings]


def quality(arm: Arm, baseline: Arm, measure: Measure) -> Quality | None:
    """Return the arm's quality against the baseline's; None if a compared job has no finite value of a known unit."""
    values, others = arm.values(measure.column), baseline.values(measure.column)
    if not measure.has_unit or not values:
        return None
    if len(values) < len(arm.compared) or len(others) < len(baseline.compared):
        return None
    return compare_quality(measure, values, others)


def _quality_reason(kept: Quality | None, arm: Arm, baseline: Arm, measure: Measure | None) -> str:
    if kept is None:
        return _missing_quality([*arm.compared, *baseline.compared], measure)
    if kept.kept:
        return ""
    if kept.shown_worse:
        return f"but the {kept.measure.label} is worse"
    return f"but the {kept.measure.label} may be worse: run more repeats to find out"


def _missing_quality(jobs: Sequence[Job], measure: Measure | None) -> str:
    if measure is None and (scores := evaluation_scores(jobs)):
        listed = joined(scores if len(scores) <= 3 else [*scores[:3], f"{len(scores) - 3} more"])
        meaning = "unit: number, better: lower" if scores[0].endswith("loss") else "unit: fraction, better: higher"
        return (
            f"but no quality is judged, because script.metrics declares none of {listed}: add the line `metrics: "
            f"{{{scores[0]}: {{{meaning}}}}}` under the line `script:`"
        )
    if measure is None and any(job.is_script for job in jobs):
        return "but no metric measures the quality: give one of script.metrics a unit and the direction that is better"
    if measure is None:
        return "but no quality was measured"
    missing = len(jobs) - len(finite(jobs, measure.column))
    if not missing:
        return (
            f"but the unit of {measure.column} is not known: add it to script.metrics, such as "
            f"{{{measure.column}: {{unit: fraction, better: {'higher' if measure.higher_is_better else 'lower'}}}}}, "
            "or set compare.quality_margin in that unit"
        )
    return f"but {missing} of {len(jobs)} jobs have no finite {measure.label}"


def _too_few(arm: Arm, baseline: Arm) -> str:
    counts = [f"“{side.label}” has {_repeats(side)}" for side in (arm, baseline) if len(side.positive(BILLABLE)) < 2]
    if not counts:
        return "the arms have too few jobs that found the same state of the compile cache"
    return " and ".join(counts) + "; a verdict needs at least two on each side"


def _repeats(arm: Arm) -> str:
    n = len(arm.positive(BILLABLE))
    state = f" with a {arm.cache_state} cache" if arm.other_cache_states else ""
    return f"{n or 'no'} successful {'repeat' if n == 1 else 'repeats'}{state}"


def _resolution(arm: Arm, baseline: Arm, unit: Currency) -> float:
    """Return the cost's resolution: 1 s or its price if every job bills whole seconds, as SageMaker does; else 0."""
    sides = [side for side in (arm, baseline) if side.positive(BILLABLE) and side.positive(unit.column)]
    if not sides or any(value != round(value) for side in sides for value in side.positive(BILLABLE)):
        return 0.0
    fewest, least = (min(geometric_mean(side.positive(name)) for side in sides) for name in (BILLABLE, unit.column))
    return least / fewest
