"""Loss curves: one line an arm, named at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tracking.report.arms import Arm
from tracking.report.canvas import Plot, arm_colour, plot, short
from tracking.report.comparison import Comparison

_MOST_DRAWN = 500
"""Points of a line, at most: the chart is 400 points wide."""


def loss_curves(
    comparison: Comparison, curves: Mapping[str, pd.DataFrame], x: str, name: str, title: str, label: str
) -> Plot | None:
    """Return the loss against the column `x` of `histories`'s tables by run; None without points.

    Bold is the mean over an arm's repeats, thin each repeat, dashed a job of another cache state.
    """
    lines = [(i, arm, mean) for i, arm in enumerate(comparison.arms) if len(mean := mean_curve(arm, curves, x))]
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        for i, arm, mean in lines:
            for jobs, dashes in [(arm.headline, "-"), *((jobs, "--") for jobs in arm.asides.values())]:
                repeats = [curves[job.run_id] for job in jobs if job.run_id in curves]
                _line(axes, repeats if len(arm.succeeded) > 1 else [], x, i, linewidth=0.9, alpha=0.4, linestyle=dashes)
            _line(axes, [mean], x, i, linewidth=2.0, marker="o" if len(mean) < 4 else None, markersize=4)
        _label_ends(axes, [(i, arm.label, mean[x].iloc[-1], mean["value"].iloc[-1]) for i, arm, mean in lines])
        axes.set(xlabel=label, ylabel="training loss")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.grid(axis="y", linewidth=0.7)

    return plot(name, title, 3.2, draw)


def mean_curve(arm: Arm, curves: Mapping[str, pd.DataFrame], x: str) -> pd.DataFrame:
    """Return the mean over the arm's headline repeats at each step, without the points that are not numbers.

    A repeat that tells other steps is taken straight between its own, and not beyond them.
    """
    tables = [table for job in arm.headline if (table := curves.get(job.run_id)) is not None and len(table)]
    if not tables:
        return pd.DataFrame(columns=["step", x, "value"])
    steps = np.unique(np.concatenate([table["step"] for table in tables]))
    mean = pd.DataFrame({"step": steps, **{name: _mean(tables, steps, name) for name in (x, "value")}})
    finite = np.isfinite(mean[[x, "value"]].to_numpy()).all(axis=1)
    told: pd.DataFrame = mean.loc[finite]
    return told


def _mean(tables: Sequence[pd.DataFrame], steps: np.ndarray, column: str) -> np.ndarray:
    """Return the mean of a column over the tables that have a value at each step, NaN where none has."""
    values = np.array([np.interp(steps, t["step"], t[column], math.nan, math.nan) for t in tables])
    told = ~np.isnan(values)
    with np.errstate(invalid="ignore"):  # of two infinities
        total: np.ndarray = np.where(told, values, 0.0).sum(axis=0)
        return total / np.where(told.any(axis=0), told.sum(axis=0), math.nan)


def _line(axes: Axes, tables: Sequence[pd.DataFrame], x: str, arm: int, **style: object) -> None:
    """Draw all tables in one go, a gap between each and the next: twenty repeats take hardly longer than one."""
    pieces = [_thinned(table[[x, "value"]].to_numpy()) for table in tables if len(table)]
    if pieces:
        points = np.concatenate([part for piece in pieces for part in (piece, [(math.nan, math.nan)])])
        axes.plot(points[:, 0], points[:, 1], color=arm_colour(arm), **style)  # type: ignore[arg-type]


def _thinned(points: np.ndarray) -> np.ndarray:
    """Return points evenly apart, the first and the last among them."""
    chosen: np.ndarray = points[np.linspace(0, len(points) - 1, min(len(points), _MOST_DRAWN)).round().astype(int)]
    return chosen


def _label_ends(axes: Axes, ends: Sequence[tuple[int, str, float, float]]) -> None:
    """Name each line at its end, pushed apart where the ends are close."""
    right = max(x for _, _, x, _ in ends)
    axes.set_xlim(0, 1.48 * right)
    low, high = axes.get_ylim()
    gap, last = 0.075 * (high - low), -math.inf
    for i, label, x, y in sorted(ends, key=lambda end: end[3]):
        last = max(y, last + gap)
        axes.annotate(
            short(label, 22), (x, y), xytext=(x + 0.03 * right, last), va="center", fontsize=9, color=arm_colour(i)
        )
