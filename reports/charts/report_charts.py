"""Charts of comparisons, trainings and probes: bars by arm, intervals, loss curves, and the time of each phase.

The first three functions list each report's charts; a new chart is one more entry there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.charts.canvas import (
    BACKGROUND,
    INK,
    MUTED,
    PHASE_COLOURS,
    PHASE_HATCHES,
    PHASE_PALETTE,
    WIDTH_POINTS,
    arm_colour,
    arm_marker,
    end_of_axis,
    legend_below,
    plain_numbers,
    plot,
)
from reports.comparison.comparison import Comparison
from reports.comparison.pair import BARS, percentages
from reports.model.numbers import capitalized, figure, short_labels, signed_interval, signed_percent
from reports.model.report import Chart
from tracking.recorded.arms import BILLABLE, DOLLARS, Arm, work_unit
from tracking.recorded.recorded_job import STEADY, Job, finite_or_zero

BY_SAMPLES = ("samples", "loss_by_samples", "Training loss by samples seen", "samples seen")
BY_SECONDS = ("billable_seconds", "loss_by_billable_seconds", "Training loss by billable time", "billable seconds")
_ROW_INCHES = 0.56
_BAR_HEIGHT = 0.42
_MAX_RATIO = 20.0
"""Ratio above which an interval is left out, because the chart would be unreadable; the page states it as text."""
_MAX_POINTS = 500
"""Largest number of points in a line; the chart is narrower than that."""
_LABEL_LENGTH = 18
"""Largest number of characters in an arm's label at the end of its line."""
_AXIS_POINTS = WIDTH_POINTS - 50
"""Width of the axis without the labels to its left."""
LABELS = {
    "queue": "queue (not billed)",
    "warmup": "warm-up",
    "train_steady": "training",
    "train": "training",
    "eval": "evaluation",
    "save": "saving",
}
_VISIBLE = 0.005
"""Share of the longest bar from which a phase is visible and named in the legend."""
_BAR_INCHES = 0.24
_HEADING_INCHES = 0.30


def comparison_charts(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts that have numbers to show; `curves` are `histories` tables of `loss` by run id."""
    if comparison.is_pair:
        return pair_charts(replace(comparison, contrasts=()), curves)
    unit = work_unit(*comparison.arms)
    rate = f"throughput_steady_{unit}_per_second"
    charts = (
        intervals(comparison),
        bars(comparison, BILLABLE, "billable", "Billable time", "billable instance seconds per job"),
        bars(comparison, DOLLARS.column, "cost", "Billable cost", "USD per job"),
        bars(comparison, "train_runtime", "training", "Training time", "seconds in the training loop per job"),
        bars(comparison, rate, "throughput", "Steady throughput", f"{unit} per second after warm-up"),
        phases(comparison),
        loss_curves(comparison, curves, *BY_SAMPLES),
        loss_curves(comparison, curves, *BY_SECONDS),
    )
    return [chart for chart in charts if chart]


def pair_charts(pair: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the four plots of the notebooks on SageMaker Training Compiler, and where the time of two jobs goes."""
    changes, by_epoch = percentages(pair), dict[str, pd.DataFrame]()
    for job in [job for job in pair.jobs if job.run_id in curves]:
        epochs = curves[job.run_id]["samples"] * job.number("epoch") / job.number("samples")
        by_epoch[job.run_id] = curves[job.run_id].assign(epoch=epochs)
    charts = [
        *(bars(pair, at, at, capitalized(BARS[at][0]), f"{BARS[at][1]}, change {changes[at].text}") for at in changes),
        loss_curves(pair, by_epoch, "epoch", "loss_by_epoch", "Training loss by epoch", "epochs"),
        phases(pair),
    ]
    return [chart for chart in charts if chart]


def probe_charts(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    charts = (
        bars(comparison, STEADY, "throughput", "Steady throughput", "samples per second after warm-up"),
        loss_curves(comparison, curves, *BY_SAMPLES),
        phases(comparison),
    )
    return [chart for chart in charts if chart]


@dataclass(frozen=True, kw_only=True)
class Bar:
    label: str
    colour: str
    value: float
    """Length of the bar."""
    note: str
    """Text after the bar."""
    solid: float | None = None
    """Length of the bar without what failed jobs add, which is hatched; None for the whole bar."""
    ends: tuple[float, ...] = ()
    """Ends of a line on the bar; empty without one."""
    ticks: Sequence[float] = ()
    """Marks on that line."""


def bars(comparison: Comparison, column: str, name: str, title: str, unit: str) -> Chart | None:
    """Return a bar per arm with its typical value, jobs and change against the baseline; None without numbers."""
    rows, texts, names = list[Bar](), list[str](), short_labels(arm.label for arm in comparison.arms)
    compared = [c.arm.label for c in comparison.contrasts if c.verdict.outcome != "not comparable"]
    base = comparison.typical(comparison.arms[0], column) if comparison.arms else None
    for index, arm in enumerate(comparison.arms if len(comparison.arms) > 1 else ()):  # a table shows a single one
        jobs, value = arm.summary(column), comparison.typical(arm, column) or 0.0
        if jobs is None:
            continue
        change = signed_percent(value / base) if base and arm.label in compared else ""
        bar = Bar(
            label=f"{names[arm.label]}  (n = {jobs.n})",
            colour=arm_colour(index),
            value=value,
            note=f"{figure(value)}  {change}".rstrip(),
            solid=jobs.typical,
            ends=(jobs.low, jobs.high) if jobs.n > 1 else (),
            ticks=arm.values(column) if jobs.n > 1 else (),
        )
        rows.append(bar)
        typical = f"{arm.label}: typically {figure(value)}{f', {change}' if change else ''}"
        texts.append(f"{typical}, {figure(jobs.low)} to {figure(jobs.high)}, n = {jobs.n}")
    notes = ["bar: typical job; ticks: jobs"] if any(bar.ends for bar in rows) else []
    notes += ["hatched: what failed jobs add"] if any(bar.value > (bar.solid or 0.0) for bar in rows) else []
    return bar_chart(rows, name, f"{title}: {unit}", "\n".join([unit, *notes]), texts)


def bar_chart(rows: Sequence[Bar], name: str, title: str, axis: str, texts: Sequence[str]) -> Chart | None:
    """Return the chart, with these descriptions of its rows; None without rows."""

    def draw(axes: Axes) -> None:
        for y, bar in enumerate(rows):
            solid = min(bar.value, bar.value if bar.solid is None else bar.solid)
            axes.barh(y, solid, height=_BAR_HEIGHT, color=bar.colour)
            if lost := bar.value - solid:
                outline, hatch = bar.colour, "////"
                axes.barh(y, lost, left=solid, height=_BAR_HEIGHT, color=BACKGROUND, edgecolor=outline, hatch=hatch)
            axes.plot(bar.ends, [y] * len(bar.ends), color=INK, linewidth=1)
            axes.plot(bar.ticks, [y] * len(bar.ticks), color=INK, linestyle="none", marker="|", markersize=7)
            axes.text(0, y - 0.30, bar.label, va="bottom", ha="left", fontsize=10)
            end = max(bar.value, *bar.ends, 0.0)
            axes.annotate(bar.note, (end, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=10)
        _finish(axes, [(max((bar.value, *bar.ends)), bar.note) for bar in rows], axis)

    return _plot(name, title, draw, texts) if rows else None


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


def _finish(axes: Axes, ends: Sequence[tuple[float, str]], label: str) -> None:
    axes.set(ylim=(len(ends) - 0.6, -0.75), xlim=(0, end_of_axis(ends) or 1.0), yticks=[], xlabel=label)
    plain_numbers(axes)
    axes.grid(axis="x", linewidth=0.7)


def _plot(name: str, title: str, draw: Callable[[Axes], None], rows: Sequence[str]) -> Chart:
    """Return the chart that `draw` draws, with these descriptions of its rows."""
    return plot(name, title, 0.82 + _ROW_INCHES * len(rows), draw, "; ".join(rows) + ".")


def loss_curves(
    comparison: Comparison, curves: Mapping[str, pd.DataFrame], x: str, name: str, title: str, label: str
) -> Chart | None:
    """Return the loss over column `x`, from `histories` tables by run id; None without points.

    The bold line with the arm's marker is the mean over the repeats. Thin lines are repeats, and dashed lines are jobs
    with a different cache state.
    """
    lines = [(i, arm, mean) for i, arm in enumerate(comparison.arms) if len(mean := mean_curve(arm, curves, x))]
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        for i, arm, mean in lines:
            for jobs, dashes in [(arm.compared, "-"), *((jobs, "--") for jobs in arm.other_cache_states.values())]:
                repeats = [curves[job.run_id] for job in jobs if job.run_id in curves]
                _line(axes, repeats if len(arm.succeeded) > 1 else [], x, i, linewidth=0.9, alpha=0.4, linestyle=dashes)
            # A few markers per line, at different points, distinguish lines that overlap.
            every = max(1, min(len(mean), _MAX_POINTS) // 6)
            _line(axes, [mean], x, i, linewidth=2.0, marker=arm_marker(i), markersize=6, markevery=(i % every, every))
        _label_ends(axes, [(i, arm.label, mean[x].iloc[-1], mean["value"].iloc[-1]) for i, arm, mean in lines])
        axes.set(xlabel=label, ylabel="training loss")
        plain_numbers(axes)
        axes.grid(axis="y", linewidth=0.7)

    description = "; ".join(
        f"{arm.label}: from {figure(mean['value'].iloc[0])} at {figure(mean[x].iloc[0])} {label} "
        f"to {figure(mean['value'].iloc[-1])} at {figure(mean[x].iloc[-1])}"
        for _, arm, mean in lines
    )
    return plot(name, title, 3.2, draw, f"{description}.")


def mean_curve(arm: Arm, curves: Mapping[str, pd.DataFrame], x: str) -> pd.DataFrame:
    """Return the mean over the arm's compared repeats at each step, without non-finite points.

    A repeat that recorded different steps is interpolated linearly, but not extrapolated.
    """
    tables = [table for job in arm.compared if (table := curves.get(job.run_id)) is not None and len(table)]
    if not tables:
        return pd.DataFrame(columns=["step", x, "value"])
    steps = np.unique(np.concatenate([table["step"] for table in tables]))
    mean = pd.DataFrame({"step": steps, **{name: _mean(tables, steps, name) for name in (x, "value")}})
    finite = np.isfinite(mean[[x, "value"]].to_numpy()).all(axis=1)
    points: pd.DataFrame = mean.loc[finite]
    return points


def _mean(tables: Sequence[pd.DataFrame], steps: np.ndarray, column: str) -> np.ndarray:
    """Return the mean of a column at each step, over the tables with a value there; NaN if no table has one."""
    values = np.array([np.interp(steps, t["step"], t[column], math.nan, math.nan) for t in tables])
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):  # a sum of opposite infinities
        total: np.ndarray = np.where(known, values, 0.0).sum(axis=0)
        return total / np.where(known.any(axis=0), known.sum(axis=0), math.nan)


def _line(axes: Axes, tables: Sequence[pd.DataFrame], x: str, arm: int, **style: object) -> None:
    """Draw all tables as one line with gaps, which takes hardly longer than drawing a single table."""
    pieces = [_thinned(table[[x, "value"]].to_numpy()) for table in tables if len(table)]
    if pieces:
        points = np.concatenate([part for piece in pieces for part in (piece, [(math.nan, math.nan)])])
        axes.plot(points[:, 0], points[:, 1], color=arm_colour(arm), **style)  # type: ignore[arg-type]


def _thinned(points: np.ndarray) -> np.ndarray:
    """Return evenly spaced points, including the first and the last."""
    thinned: np.ndarray = points[np.linspace(0, len(points) - 1, min(len(points), _MAX_POINTS)).round().astype(int)]
    return thinned


def _label_ends(axes: Axes, ends: Sequence[tuple[int, str, float, float]]) -> None:
    """Label each line at its end, which a thin line connects with its label. Labels are moved apart if they overlap."""
    names = short_labels((label for _, label, _, _ in ends), _LABEL_LENGTH)
    right = end_of_axis([(x, f"–– {names[label]}") for _, label, x, _ in ends], _AXIS_POINTS)
    axes.set_xlim(0, max(right, axes.dataLim.x1))
    low, high = axes.get_ylim()
    gap, last = 0.075 * (high - low), -math.inf
    for i, label, x, y in sorted(ends, key=lambda end: end[3]):
        last = max(y, last + gap)
        at = x + 0.045 * axes.get_xlim()[1]
        axes.plot(x, y, marker=arm_marker(i), markersize=6, color=arm_colour(i), clip_on=False)
        axes.plot([x, at], [y, last], color=arm_colour(i), linewidth=0.8, linestyle=":", clip_on=False)
        axes.annotate(
            names[label], (at, last), (2, 0), textcoords="offset points", va="center", fontsize=9.5, color=INK
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    heading: str
    """Text above the bar."""
    note: str
    """Text after the bar."""
    seconds: Mapping[str, float]
    """Seconds by phase, in chronological order."""


def phases(comparison: Comparison, title: str = "Where the time goes: seconds by phase") -> Chart | None:
    """Return the chart; None if no job recorded a phase."""
    rows = rows_of(comparison)
    if not rows:
        return None
    ends = [(sum(row.seconds.values()), row.note) for row in rows]
    longest = max(seconds for seconds, _ in ends)
    shown = [phase for phase in PHASE_COLOURS if any(row.seconds[phase] > _VISIBLE * longest for row in rows)]
    height = len(rows) * (_BAR_INCHES + _HEADING_INCHES)

    def draw(axes: Axes) -> None:
        for at, row in enumerate(rows):
            y = at * (_BAR_INCHES + _HEADING_INCHES)
            axes.text(0, y + 0.05, row.heading, va="top", ha="left", fontsize=10)
            _stack(axes, y + _HEADING_INCHES + _BAR_INCHES / 2, row, longest)
        axes.set(ylim=(height + 0.05, 0), xlim=(0, end_of_axis(ends)), yticks=[], xlabel="seconds")
        plain_numbers(axes)
        axes.grid(axis="x", linewidth=0.7)
        handles = [axes.barh(0, 0, **_style(phase), label=LABELS.get(phase, phase)) for phase in shown]
        legend_below(axes, handles, fontsize=10, handlelength=0.9)

    return plot("phases", title, height + 1.2, draw, _description(rows), palette=PHASE_PALETTE)


def rows_of(comparison: Comparison) -> list[Row]:
    """Return a bar for each arm and state of its compile cache: the means of its jobs that recorded a phase."""
    names, rows = short_labels(arm.label for arm in comparison.arms), list[Row]()
    for arm in comparison.arms:
        for state, succeeded in [(arm.cache_state, arm.compared), *arm.other_cache_states.items()]:
            seconds = [(job, seconds_of([job])) for job in succeeded]
            if jobs := [job for job, each in seconds if any(each[phase] for phase in each if phase != "other")]:
                cache = f", {state} cache" if state != "off" else ""
                mean = f"  (mean of {len(jobs)})" if len(jobs) > 1 else ""
                heading = f"{names[arm.label]}{cache}{mean}"
                rows.append(Row(heading=heading, note=f"{figure(_billed(jobs))} s", seconds=seconds_of(jobs)))
    return rows


def seconds_of(jobs: Sequence[Job]) -> dict[str, float]:
    """Return the mean seconds of each phase; `other` is the billed time that no phase covers."""
    names = [phase for phase in PHASE_COLOURS if phase != "other"]
    means = {phase: fmean(finite_or_zero(job.number(f"time_{phase}_seconds")) for job in jobs) for phase in names}
    billed_phases = sum(means.values()) - means["queue"]
    return {**means, "other": max(0.0, _billed(jobs) - billed_phases)}


def _billed(jobs: Sequence[Job]) -> float:
    return fmean(finite_or_zero(job.number("cost_billable_seconds")) for job in jobs)


def _stack(axes: Axes, y: float, row: Row, longest: float) -> None:
    left = 0.0
    for phase, width in row.seconds.items():
        axes.barh(y, width, left=left, height=0.8 * _BAR_INCHES, **_style(phase))
        if width > 0.12 * longest:
            text = axes.text(left + width / 2, y, figure(width), ha="center", va="center", fontsize=9.5)
            text.set_bbox({"facecolor": BACKGROUND, "edgecolor": "none", "boxstyle": "round,pad=0.1"})
        left += width
    axes.annotate(row.note, (left, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9.5)


def _style(phase: str) -> dict[str, Any]:
    is_hollow = phase == "queue"
    return {
        "color": BACKGROUND if is_hollow else PHASE_COLOURS[phase],
        "edgecolor": MUTED if is_hollow else BACKGROUND,
        "linewidth": 1,
        "hatch": PHASE_HATCHES.get(phase),
    }


def _description(rows: Sequence[Row]) -> str:
    descriptions = []
    for row in rows:
        parts = ", ".join(f"{LABELS.get(p, p)} {figure(seconds)}" for p, seconds in row.seconds.items() if seconds > 0)
        descriptions.append(f"{row.heading}: {row.note}, of which {parts}")
    return "; ".join(descriptions) + "."
