"""Charts of comparisons and probes: bars with one labelled row per arm, and the list of each report's charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from judging.intervals import Interval
from judging.summaries import Summary, gain_percent
from reports.charts.canvas import BACKGROUND, INK, arm_colour, end_of_axis, plain_numbers, plot
from reports.charts.curves import loss_curves
from reports.charts.phases import phases
from reports.comparison.arms import STEADY, Arm
from reports.comparison.comparison import Comparison
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.model.numbers import figure, short_labels, signed_interval, signed_percent
from reports.model.report import Chart
from reports.probe.projections import Probes

BY_SAMPLES = ("samples", "loss_by_samples", "Training loss by samples seen and epochs", "samples seen")
BY_SECONDS = ("billable_seconds", "loss_by_billable_seconds", "Training loss by billable time", "billable seconds")
_ROW_INCHES = 0.56
_BAR_HEIGHT = 0.42
_MAX_RATIO = 20.0
"""Ratio above which an interval is left out, because the chart would be unreadable; the page states it as text."""


def comparison_charts(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts that have numbers to show; `curves` are `histories` tables of `loss` by run id."""
    charts = (
        intervals(comparison),
        bars(comparison, BILLABLE, "billable", "Billable time", "billable instance seconds per job"),
        bars(comparison, DOLLARS.column, "cost", "Billable cost", "USD per job"),
        bars(comparison, "train_runtime", "training", "Training time", "seconds in the training loop per job"),
        bars(comparison, STEADY, "throughput", "Steady throughput", "samples per second after warm-up"),
        phases(comparison),
        loss_curves(comparison, curves, *BY_SAMPLES),
        loss_curves(comparison, curves, *BY_SECONDS),
    )
    return [chart for chart in charts if chart]


def training_charts(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts of one training that have numbers to show."""
    charts = (
        phases(comparison),
        loss_curves(comparison, curves, *BY_SAMPLES),
        loss_curves(comparison, curves, *BY_SECONDS),
    )
    return [chart for chart in charts if chart]


def probe_charts(probes: Probes, comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts of a group of probes that have numbers to show."""
    charts = (
        projections(probes, comparison),
        bars(comparison, STEADY, "throughput", "Steady throughput", "samples per second after warm-up"),
        loss_curves(comparison, curves, *BY_SAMPLES),
        phases(comparison),
    )
    return [chart for chart in charts if chart]


@dataclass(frozen=True)
class Bar:
    index: int
    """Position of the arm in the comparison, which sets the colour."""
    arm: Arm
    jobs: Summary
    """The successful jobs."""
    value: float
    """Length of the bar: the typical value of the jobs, or the cost of a usable model, which failed jobs raise."""
    change: str
    """Change against the baseline's bar; empty if they are not compared."""


def bars(comparison: Comparison, column: str, name: str, title: str, unit: str) -> Chart | None:
    """Return a bar per arm with its typical value, its jobs and its change against the baseline; None without numbers.

    The change is that of the bars. A note below the axis states a verdict's estimate that differs visibly.
    """
    rows: list[Bar] = []
    compared = [c.arm.label for c in comparison.contrasts if c.verdict.outcome != "not comparable"]
    for index, arm in enumerate(comparison.arms):
        if jobs := arm.summary(column):
            cost = comparison.cost(arm, column) if column in (BILLABLE, DOLLARS.column) else None
            value = jobs.typical if cost is None else cost
            has_baseline = bool(rows) and rows[0].index == 0 and rows[0].value > 0
            change = signed_percent(value / rows[0].value) if has_baseline and arm.label in compared else ""
            rows.append(Bar(index, arm, jobs, value, change))
    if not rows:
        return None
    ends = [(max(bar.jobs.high, bar.value), f"{figure(bar.value)}  {bar.change}".rstrip()) for bar in rows]
    names = short_labels(arm.label for arm in comparison.arms)

    def draw(axes: Axes) -> None:
        for y, bar in enumerate(rows):
            _draw(axes, y, bar, bar.arm.values(column))
            _label(axes, y, f"{names[bar.arm.label]}  (n = {bar.jobs.n})", ends[y])
        _finish(axes, ends, "\n".join([unit, *_notes(comparison, column, rows)]))

    description = [
        f"{bar.arm.label}: typically {figure(bar.value)}{f', {bar.change}' if bar.change else ''}, "
        f"{figure(bar.jobs.low)} to {figure(bar.jobs.high)}, n = {bar.jobs.n}"
        for bar in rows
    ]
    return _plot(name, f"{title}: {unit}", draw, description)


def _draw(axes: Axes, y: int, bar: Bar, values: Sequence[float]) -> None:
    """Draw the bar, what failed jobs add to it, and a tick for each successful job."""
    colour = arm_colour(bar.index)
    axes.barh(y, bar.jobs.typical, height=_BAR_HEIGHT, color=colour)
    if bar.value > bar.jobs.typical:
        lost = bar.value - bar.jobs.typical
        axes.barh(y, lost, left=bar.jobs.typical, height=_BAR_HEIGHT, color=BACKGROUND, edgecolor=colour, hatch="////")
    if bar.jobs.n > 1:
        axes.plot([bar.jobs.low, bar.jobs.high], [y, y], color=INK, linewidth=1)
        axes.plot(values, [y] * len(values), color=INK, linestyle="none", marker="|", markersize=7, markeredgewidth=1.2)


def _notes(comparison: Comparison, column: str, rows: Sequence[Bar]) -> list[str]:
    """Return the lines below the axis that explain the bars."""
    notes = ["bar: typical job; ticks: jobs"] if any(bar.jobs.n > 1 for bar in rows) else []
    if any(bar.value > bar.jobs.typical for bar in rows):
        notes.append("hatched: what failed jobs add")
    names = short_labels((arm.label for arm in comparison.arms), 20)
    return notes + [
        f"“{names[label]}”: {signed_percent(estimate)} in the verdict, from other jobs"
        for label, estimate in comparison.unlike_shown(column)
    ]


def intervals(comparison: Comparison) -> Chart | None:
    """Return each arm's cost against the baseline with its interval; None if no arm has one that says something.

    Without an interval that says something, an arm has a point and the text `too few repeats`.
    """
    ratios = [(i, c.arm, c.verdict.ratio) for i, c in enumerate(comparison.contrasts, start=1)]
    rows = [(i, arm, ratio) for i, arm, ratio in ratios if ratio and max(_ends(ratio)) < gain_percent(_MAX_RATIO)]
    if not any(ratio.is_informative for _, _, ratio in rows):
        return None
    left = min(-10.0, *(end for _, _, ratio in rows for end in _ends(ratio)))
    right = max(10.0, *(end for _, _, ratio in rows for end in _ends(ratio)))
    names = short_labels((arm.label for arm in comparison.arms), 28)
    nouns = dict.fromkeys(c.verdict.currency.noun for c in comparison.contrasts if c.verdict.ratio)
    quantity = "Cost" if DOLLARS.noun in nouns else "Billable time"

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=INK, linewidth=1)
        for y, (i, arm, ratio) in enumerate(rows):
            axes.plot(_ends(ratio), [y, y], color=arm_colour(i), linewidth=3, solid_capstyle="round")
            axes.plot(gain_percent(ratio.estimate), y, color=arm_colour(i), marker="o", markersize=8)
            text = f"{names[arm.label]}  ({signed_interval(ratio)})"
            label = axes.text(left, y - 0.30, text, va="bottom", fontsize=10)
            label.set_bbox({"facecolor": BACKGROUND, "edgecolor": "none", "pad": 0.5})  # covers the line at 0
        unit = f"change in {' or '.join(nouns)}, %\nagainst “{names[comparison.arms[0].label]}”"
        _finish(axes, [(right, "")] * len(rows), unit)
        axes.set_xlim(left - 0.03 * (right - left), right + 0.03 * (right - left))

    texts = [f"{arm.label}: {signed_percent(ratio.estimate)}, {signed_interval(ratio)}" for _, arm, ratio in rows]
    return _plot("interval", f"{quantity} against the baseline: 95 % interval", draw, texts)


def _ends(ratio: Interval) -> list[float]:
    """Return the ends of an interval in percent, or twice its estimate if the interval says nothing."""
    ends = (ratio.low, ratio.high) if ratio.is_informative else (ratio.estimate, ratio.estimate)
    return [gain_percent(end) for end in ends]


def projections(probes: Probes, comparison: Comparison) -> Chart | None:
    """Return a bar per arm, in its usual colour, with the projected cost and interval; None without projections."""
    rows, labels = probes.projected, [arm.label for arm in comparison.arms]
    if not rows:
        return None
    ends, names = [(each.cost.high, figure(each.cost.estimate)) for each in rows], short_labels(labels)

    def draw(axes: Axes) -> None:
        for y, each in enumerate(rows):
            cost = each.cost
            colour = arm_colour(labels.index(each.arm.label))
            axes.barh(y, cost.estimate, height=_BAR_HEIGHT, color=colour)
            axes.plot([cost.low, cost.high], [y, y], color=INK, linewidth=1.4, marker="|", markersize=7)
            _label(axes, y, names[each.arm.label], ends[y])
        _finish(axes, ends, f"{probes.unit}; line: 95 % interval")

    texts = [
        f"{each.arm.label}: {figure(each.cost.estimate)}, {figure(each.cost.low)} to {figure(each.cost.high)}"
        for each in rows
    ]
    return _plot("projection", f"Projected for the whole training: {probes.unit}", draw, texts)


def labelled_bars(rows: Sequence[tuple[str, float, str]], name: str, title: str, label: str) -> Chart:
    """Return a bar per row, given as (label, value, colour)."""

    def draw(axes: Axes) -> None:
        for y, (text, value, colour) in enumerate(rows):
            axes.barh(y, value, height=_BAR_HEIGHT, color=colour)
            _label(axes, y, text, (value, figure(value)))
        _finish(axes, [(value, figure(value)) for _, value, _ in rows], label)

    return _plot(name, title, draw, [f"{text}, {figure(value)}" for text, value, _ in rows])


def _label(axes: Axes, y: float, text: str, end: tuple[float, str]) -> None:
    """Put `text` above the row's bar, where long names fit, and a note after its end; `end` is (value, note)."""
    axes.text(0, y - 0.30, text, va="bottom", ha="left", fontsize=10)
    axes.annotate(end[1], (end[0], y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=10)


def _finish(axes: Axes, ends: Sequence[tuple[float, str]], label: str) -> None:
    axes.set(ylim=(len(ends) - 0.6, -0.75), xlim=(0, end_of_axis(ends) or 1.0), yticks=[], xlabel=label)
    plain_numbers(axes)
    axes.grid(axis="x", linewidth=0.7)


def _plot(name: str, title: str, draw: Callable[[Axes], None], rows: Sequence[str]) -> Chart:
    """Return the chart that `draw` draws, with these descriptions of its rows."""
    return plot(name, title, 0.82 + _ROW_INCHES * len(rows), draw, "; ".join(rows) + ".")
