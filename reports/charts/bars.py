"""Bar charts with one labelled row per arm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from judging.intervals import Interval
from judging.summaries import Summary, gain_percent
from reports.charts.canvas import BACKGROUND, INK, arm_colour, end_of_axis, plot
from reports.comparison.arms import STEADY, Arm
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.equal_work import DOLLARS
from reports.model.blocks import Chart
from reports.model.numbers import figure, signed_percent
from reports.model.wording import short
from reports.probe.projections import Probes

_ROW_INCHES = 0.56
_BAR_HEIGHT = 0.42
_MAX_RATIO = 20.0
"""Ratio above which an interval is left out, because the chart would be unreadable; the page states it as text."""


def bars(comparison: Comparison, column: str, name: str, title: str, unit: str) -> Chart | None:
    """Return a bar per arm with its median, extremes and change against the baseline; None without numbers."""
    rows = [(i, arm, values) for i, arm in enumerate(comparison.arms) if (values := arm.summary(column))]
    if not rows:
        return None
    ends = [
        (values.high, f"{figure(values.median)}{_against_baseline(comparison, arm, column, values)}")
        for _, arm, values in rows
    ]
    means = (
        "; %: estimated from all repeats"
        if any(_interval(contrast, column) for contrast in comparison.contrasts)
        else ""
    )

    def draw(axes: Axes) -> None:
        for y, (i, arm, values) in enumerate(rows):
            axes.barh(y, values.median, height=_BAR_HEIGHT, color=arm_colour(i))
            if values.n > 1:
                axes.plot([values.low, values.high], [y, y], color=INK, linewidth=1.4, marker="|", markersize=7)
            _label(axes, y, f"{short(arm.label)}  (n = {values.n})", ends[y])
        _finish(axes, ends, f"{unit}\nmedian; line: lowest to highest{means}")

    description = _listed(_description(comparison, arm, column, values) for _, arm, values in rows)
    return plot(name, f"{title}: {unit}", _height(len(rows)), draw, description)


def intervals(comparison: Comparison) -> Chart | None:
    """Return each arm's cost against the baseline with its interval; None if no arm has an interval."""
    ratios = [(i, c.arm, c.verdict.ratio) for i, c in enumerate(comparison.contrasts, start=1)]
    rows = [(i, arm, ratio) for i, arm, ratio in ratios if ratio and ratio.high < _MAX_RATIO]
    if not rows:
        return None
    left = min(-10.0, *(gain_percent(ratio.low) for _, _, ratio in rows))
    right = max(10.0, *(gain_percent(ratio.high) for _, _, ratio in rows))
    baseline = comparison.arms[0].label
    nouns = dict.fromkeys(c.verdict.currency.noun for c in comparison.contrasts if c.verdict.ratio)
    quantity = "Cost" if DOLLARS.noun in nouns else "Billable time"

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=INK, linewidth=1)
        for y, (i, arm, ratio) in enumerate(rows):
            ends = [gain_percent(ratio.low), gain_percent(ratio.high)]
            axes.plot(ends, [y, y], color=arm_colour(i), linewidth=3, solid_capstyle="round")
            axes.plot(gain_percent(ratio.estimate), y, color=arm_colour(i), marker="o", markersize=8)
            interval = f"{signed_percent(ratio.low)} to {signed_percent(ratio.high)}"
            label = axes.text(left, y - 0.30, f"{short(arm.label, 28)}  ({interval})", va="bottom", fontsize=10)
            label.set_bbox({"facecolor": BACKGROUND, "edgecolor": "none", "pad": 0.5})  # covers the line at 0
        unit = f"change in {' or '.join(nouns)}, %\nagainst “{short(baseline)}”"
        _finish(axes, [(right, "")] * len(rows), unit)
        axes.set_xlim(left - 0.03 * (right - left), right + 0.03 * (right - left))

    description = _listed(
        f"{arm.label}: {signed_percent(ratio.estimate)}, {signed_percent(ratio.low)} to {signed_percent(ratio.high)}"
        for _, arm, ratio in rows
    )
    return plot("interval", f"{quantity} against the baseline: 95 % interval", _height(len(rows)), draw, description)


def projections(probes: Probes, comparison: Comparison) -> Chart | None:
    """Return a bar per arm, in its usual colour, with the projected cost and interval; None without projections."""
    rows, labels = probes.projected, [arm.label for arm in comparison.arms]
    if not rows:
        return None
    ends = [(each.cost.high, figure(each.cost.estimate)) for each in rows]

    def draw(axes: Axes) -> None:
        for y, each in enumerate(rows):
            cost = each.cost
            colour = arm_colour(labels.index(each.arm.label))
            axes.barh(y, cost.estimate, height=_BAR_HEIGHT, color=colour)
            axes.plot([cost.low, cost.high], [y, y], color=INK, linewidth=1.4, marker="|", markersize=7)
            _label(axes, y, short(each.arm.label), ends[y])
        _finish(axes, ends, f"{probes.unit}; line: 95 % interval")

    description = _listed(
        f"{each.arm.label}: {figure(each.cost.estimate)}, {figure(each.cost.low)} to {figure(each.cost.high)}"
        for each in rows
    )
    title = f"Projected for the whole training: {probes.unit}"
    return plot("projection", title, _height(len(rows)), draw, description)


def labelled_bars(rows: Sequence[tuple[str, float, str]], name: str, title: str, label: str) -> Chart:
    """Return a bar per row, given as (label, value, colour)."""

    def draw(axes: Axes) -> None:
        for y, (text, value, colour) in enumerate(rows):
            axes.barh(y, value, height=_BAR_HEIGHT, color=colour)
            _label(axes, y, text, (value, figure(value)))
        _finish(axes, [(value, figure(value)) for _, value, _ in rows], label)

    return plot(name, title, _height(len(rows)), draw, _listed(f"{text}, {figure(value)}" for text, value, _ in rows))


def _against_baseline(comparison: Comparison, arm: Arm, column: str, values: Summary) -> str:
    """Return the change against the baseline that the verdict is based on, or else the change between the medians."""
    contrast = next((c for c in comparison.contrasts if c.arm is arm), None)
    baseline = comparison.arms[0].summary(column)
    if contrast is None or baseline is None or baseline.median <= 0 or contrast.verdict.outcome == "not comparable":
        return ""
    interval = _interval(contrast, column)
    return f"  {signed_percent(interval.estimate if interval else values.median / baseline.median)}"


def _interval(contrast: Contrast, column: str) -> Interval | None:
    """Return the ratio of a column's geometric means if the verdict or the steady gain is based on it, or else None."""
    return {STEADY: contrast.speed_up, contrast.verdict.currency.column: contrast.verdict.ratio}.get(column)


def _description(comparison: Comparison, arm: Arm, column: str, values: Summary) -> str:
    change = _against_baseline(comparison, arm, column, values).strip()
    median = f"median {figure(values.median)}{f', {change}' if change else ''}"
    return f"{arm.label}: {median}, {figure(values.low)} to {figure(values.high)}, n = {values.n}"


def _listed(rows: Iterable[str]) -> str:
    """Return the rows as one text, for a chart's description."""
    return "; ".join(rows) + "."


def _label(axes: Axes, y: float, text: str, end: tuple[float, str]) -> None:
    """Put `text` above the row's bar, where long names fit, and a note after its end; `end` is (value, note)."""
    axes.text(0, y - 0.30, text, va="bottom", ha="left", fontsize=10)
    axes.annotate(end[1], (end[0], y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=10)


def _finish(axes: Axes, ends: Sequence[tuple[float, str]], label: str) -> None:
    axes.set(ylim=(len(ends) - 0.6, -0.75), xlim=(0, end_of_axis(ends) or 1.0), yticks=[], xlabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}".replace("-", "−"))
    axes.grid(axis="x", linewidth=0.7)


def _height(rows: int) -> float:
    return 0.82 + _ROW_INCHES * rows
