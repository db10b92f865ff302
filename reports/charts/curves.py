"""Loss curves with one line per arm, named at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from reports.charts.canvas import INK, MUTED, WIDTH_POINTS, arm_colour, arm_marker, end_of_axis, plain_numbers, plot
from reports.comparison.arms import Arm
from reports.comparison.comparison import Comparison
from reports.model.numbers import figure, short_labels
from reports.model.report import Chart

_MAX_POINTS = 500
"""Largest number of points in a line; the chart is narrower than that."""
_LABEL_LENGTH = 18
"""Largest number of characters in an arm's label at the end of its line."""
_AXIS_POINTS = WIDTH_POINTS - 50
"""Width of the axis without the labels to its left."""


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
        if x == "samples" and (rows := rows_per_epoch(comparison)):
            _add_epoch_axis(axes, rows)
        plain_numbers(axes)
        axes.grid(axis="y", linewidth=0.7)

    description = "; ".join(
        f"{arm.label}: from {figure(mean['value'].iloc[0])} at {figure(mean[x].iloc[0])} {label} "
        f"to {figure(mean['value'].iloc[-1])} at {figure(mean[x].iloc[-1])}"
        for _, arm, mean in lines
    )
    return plot(name, title, 3.2, draw, f"{description}.")


def rows_per_epoch(comparison: Comparison) -> float | None:
    """Return the number of training rows (samples divided by epochs); None if the jobs differ."""
    counts = [(job.number("samples"), job.number("epoch")) for arm in comparison.arms for job in arm.succeeded]
    rows = [samples / epochs for samples, epochs in counts if 0 < samples < math.inf and 0 < epochs < math.inf]
    if not rows or len(rows) < len(counts) or max(rows) > 1.02 * min(rows):
        return None
    return fmean(rows)


def _add_epoch_axis(axes: Axes, rows: float) -> None:
    above = axes.secondary_xaxis("top", functions=(lambda x: np.asarray(x) / rows, lambda x: np.asarray(x) * rows))
    above.set_xlabel("epochs", color=MUTED)
    above.spines["top"].set_visible(False)
    above.tick_params(size=0, labelsize=10, labelcolor=MUTED)


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
            names[label],
            (at, last),
            (2, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
            color=INK,
        )
