"""The few figures of a report by which reports are compared with each other, as metrics of its run. Pure.

MLflow's charts stand in sections by what is before the last `/` of a metric's name: one section a figure, one chart an
arm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.comparison import STEADY, Comparison
from reports.comparison.equal_work import DOLLARS, PAID
from reports.formats.report import Report
from reports.probe.projections import Probes, Range
from reports.sweep.messages import interval_of
from reports.sweep.sweep import Sweep

MOST_ARMS = 50
"""More charts in a section tell nobody anything."""
_MOST_CHARACTERS = 150
"""Of an arm in a metric's name; MLflow takes 250 for all of the name."""
_ENDS = ("", " low", " high")
"""What follows a name that has an interval."""


def figures_of(report: Report) -> dict[str, float]:
    """Return finite figures by the names of metrics that MLflow takes; empty where there are none.

    Of a comparison what each arm is billed, how fast it is and how good, and its saving; of a sweep the best setting
    and the base; of probes what the whole trainings would take. Medians, as in the report's table.
    """
    if report.sweep:
        told = _of_sweep(report.sweep)
    else:
        told = _of_probes(report.probes) if report.probes else _of_comparison(report.comparison)
    return {name: value for name, value in told if math.isfinite(value)}


def metric_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return what each label is called in a metric's name: letters, digits, `_`, `-`, `.` and single spaces.

    The rule is that of `mlflow.utils.validation`; a colon it takes on some systems alone. No two are alike, in whatever
    case (some databases see none), nor is one the end of another one's interval.
    """
    found: dict[str, str] = {}
    used: set[str] = set()
    for label in labels:
        plain, number = _plain(label), 1
        name = plain
        while used & (ends := {f"{name}{end}".casefold() for end in _ENDS}):
            number += 1
            name = f"{plain} {number}"
        used |= ends
        found[label] = name
    return found


def _plain(label: str) -> str:
    text = " ".join(re.sub(r"[^\w.\-]+", " ", label.replace("×", "x")).split())
    # A name of dots alone would be a folder's.
    return text[:_MOST_CHARACTERS].strip(" .") or "unnamed"


def _of_comparison(comparison: Comparison) -> Iterator[tuple[str, float]]:
    arms = comparison.arms[:MOST_ARMS]
    names = metric_labels(arm.label for arm in arms)
    told = {"billable_instance_seconds": PAID, "usd": DOLLARS.column, "steady_samples_per_second": STEADY}
    told[comparison.loss_column] = comparison.loss_column
    if comparison.measure:
        told[comparison.measure.column] = comparison.measure.column
    for arm in arms:
        for figure, column in told.items():
            if found := arm.summary(column):
                yield f"{figure}/{names[arm.label]}", found.median
    for contrast in comparison.contrasts[: MOST_ARMS - 1]:
        if ratio := contrast.verdict.ratio:
            yield from _interval(f"saving_percent/{names[contrast.arm.label]}", _saving(ratio))


def _of_sweep(sweep: Sweep) -> Iterator[tuple[str, float]]:
    cost, best, everything = sweep.asked.cost, sweep.best, sweep.spent()[-1]
    yield "sweep/paid_billable_instance_seconds", everything.seconds
    yield "sweep/paid_usd", everything.usd
    if best is None:
        return
    yield f"sweep/best_{cost}", sweep.cost_of(best)
    yield f"sweep/base_{cost}", sweep.base_cost
    if ratio := interval_of(sweep, best):
        name, change = ("gain", _gain(ratio)) if sweep.asked.is_rate else ("saving", _saving(ratio))
        yield from _interval(f"sweep/{name}_percent", change)
    names = metric_labels(sweep.compilers)
    for compiler in sweep.compilers:
        if found := sweep.best_of(compiler):
            yield f"best_{cost}/{names[compiler]}", sweep.cost_of(found)


def _of_probes(probes: Probes) -> Iterator[tuple[str, float]]:
    projected = probes.projected[:MOST_ARMS]
    names = metric_labels(each.arm.label for each in projected)
    for each in projected:
        name = names[each.arm.label]
        yield from _interval(f"projected_billable_seconds/{name}", each.seconds)
        if probes.unit == "USD":
            yield from _interval(f"projected_usd/{name}", each.paid)


def _saving(ratio: Interval) -> Range:
    """Return how much less in percent: a ratio of 0.8 is 20."""
    estimate, low, high = (-gain_percent(value) for value in (ratio.estimate, ratio.high, ratio.low))
    return Range(estimate, low, high)


def _gain(ratio: Interval) -> Range:
    return Range(*(gain_percent(value) for value in (ratio.estimate, ratio.low, ratio.high)))


def _interval(name: str, told: Range) -> Iterator[tuple[str, float]]:
    yield from zip((f"{name}{end}" for end in _ENDS), (told.estimate, told.low, told.high), strict=True)
