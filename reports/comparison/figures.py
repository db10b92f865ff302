"""A comparison's figures as data: its summary, its metrics and its short answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from judging.intervals import Interval
from judging.summaries import gain_percent, summary
from reports.comparison import messages
from reports.comparison.arms import STEADY, Arm
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.comparison.look_table import looks_summary
from reports.model.numbers import figure, percent
from reports.model.report import Metric, ShortAnswer

_COSTS = (BILLABLE, DOLLARS.column)


def summary_of(comparison: Comparison) -> dict[str, Any]:
    """Return numbers and verdicts; non-finite numbers are kept, although strict JSON forbids them."""
    return {
        "group": comparison.group,
        "headline": messages.headline(comparison),
        "baseline": comparison.baseline.label if comparison.baseline else None,
        "best": comparison.best.arm.label if comparison.best else None,
        "rules": comparison.rules,
        "quality_measure": comparison.measure.column if comparison.measure else None,
        "paid_instance_seconds": comparison.billable_instance_seconds,
        "arms": [_arm(arm) for arm in comparison.arms],
        **looks_summary(comparison),
        "contrasts": [contrast_summary(contrast) for contrast in comparison.contrasts],
    }


def contrast_summary(contrast: Contrast) -> dict[str, Any]:
    """Return a verdict with its numbers."""
    return {
        "arm": contrast.arm.label,
        **asdict(contrast.verdict),
        "speed_up": asdict(contrast.speed_up) if contrast.speed_up else None,
        "break_even": {state: asdict(point) for state, point in contrast.break_evens.items()},
    }


def metrics_of(comparison: Comparison) -> Iterator[Metric]:
    """Yield each arm's typical cost, speed and quality, and its saving against the baseline."""
    columns = {"billable_instance_seconds": BILLABLE, "usd": DOLLARS.column, "steady_samples_per_second": STEADY}
    columns[comparison.loss_column] = comparison.loss_column
    if comparison.measure:
        columns[comparison.measure.column] = comparison.measure.column
    for arm in comparison.arms:
        for name, column in columns.items():
            values = arm.summary(column)
            shown = comparison.cost(arm, column) if column in _COSTS else values.typical if values else None
            yield Metric(name=name, label=arm.label, value=math.nan if shown is None else shown)
    for contrast in comparison.contrasts:
        if ratio := contrast.verdict.ratio:
            yield saving_metric("saving_percent", ratio, contrast.arm.label)


def saving_metric(name: str, ratio: Interval, label: str = "") -> Metric:
    """Return a cost ratio as a saving in percent: a ratio of 0.8 saves 20 %.

    An interval that says nothing is left out.
    """
    estimate, low, high = (-gain_percent(value) for value in (ratio.estimate, ratio.high, ratio.low))
    return Metric(name=name, label=label, value=estimate, interval=(low, high) if ratio.is_informative else None)


def short_answer_of(comparison: Comparison) -> ShortAnswer:
    """Return the answer in a few words, such as `inductor 20 % cheaper`."""
    baseline, outcomes = comparison.baseline, {contrast.verdict.outcome for contrast in comparison.contrasts}
    if baseline is None:
        return ShortAnswer("", "no jobs")
    if not any(arm.succeeded for arm in comparison.arms):
        return ShortAnswer("", _without_success(comparison))
    if not comparison.contrasts:
        cost = baseline.summary(BILLABLE)
        return ShortAnswer("", f"{figure(cost.typical)} s billed" if cost else "billed seconds unknown")
    if (best := comparison.best) and best.verdict.ratio:
        return cheaper(best.arm.label, best.verdict.ratio)
    if later := comparison.later_best:
        contrast, trainings = later
        return ShortAnswer(contrast.arm.label, f"{_comma(contrast.arm.label)} cheaper from {trainings} trainings on")
    if outcomes == {"not cheaper"}:
        return ShortAnswer("", "nothing cheaper")
    return ShortAnswer("", "not comparable" if outcomes == {"not comparable"} else "inconclusive")


def _without_success(comparison: Comparison) -> str:
    """Return the answer of a comparison without a successful job."""
    if any(job.unfinished for job in comparison.jobs):
        return "no answer yet"
    return "failed" if any(job.failed for job in comparison.jobs) else "stopped"


def cheaper(setting: str, ratio: Interval) -> ShortAnswer:
    """Return `inductor 20 % cheaper`."""
    return ShortAnswer(setting, f"{_comma(setting)} {percent(ratio.estimate)} % cheaper")


def _comma(setting: str) -> str:
    """Return a comma after a setting that contains digits or commas: `batch 64, 20 % cheaper`."""
    return "" if setting.isalpha() else ","


def _arm(arm: Arm) -> dict[str, Any]:
    names = sorted({name for job in arm.compared for name in job.numbers})
    summaries = {name: asdict(values) for name in names if (values := arm.summary(name))}
    setup = summary(arm.setup_seconds)
    return {
        "label": arm.label,
        "cache_state": arm.cache_state,
        "jobs": len(arm.jobs),
        "succeeded": len(arm.succeeded),
        "failed": len(arm.failed),
        "stopped": len(arm.stopped),
        "disturbed": sum(bool(job.disturbances) for job in arm.jobs),
        "repeats": len(arm.compared),
        "setup_seconds": asdict(setup) if setup else None,
        "numbers": summaries,
    }
