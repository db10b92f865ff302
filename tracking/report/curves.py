"""Loss curves: one line an arm, named at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from tracking.report.arms import Arm
from tracking.report.canvas import Plot, arm_colour, plot, short
from tracking.report.comparison import Comparison


def loss_curves(
    comparison: Comparison, curves: Mapping[str, pd.DataFrame], x: str, name: str, title: str, label: str
) -> Plot | None:
    """Return the loss against the column `x` of `query.history`'s tables by run; None without points.

    Bold is the mean over an arm's repeats, thin each repeat, dashed a job of another cache state.
    """
    lines = [(i, arm, mean) for i, arm in enumerate(comparison.arms) if len(mean := _mean_curve(arm, curves, x))]
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        for i, arm, mean in lines:
            repeats = [*arm.headline, *(job for jobs in arm.asides.values() for job in jobs)]
            for job in repeats if len(repeats) > 1 else []:
                dashes = "-" if job.cache_state == arm.cache_state else "--"
                _line(axes, curves.get(job.run_id), x, i, linewidth=0.9, alpha=0.4, linestyle=dashes)
            _line(axes, mean, x, i, linewidth=2.0, marker="o" if len(mean) < 4 else None, markersize=4)
        _label_ends(axes, [(i, arm.label, mean[x].iloc[-1], mean["value"].iloc[-1]) for i, arm, mean in lines])
        axes.set(xlabel=label, ylabel="training loss")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.grid(axis="y", linewidth=0.7)

    return plot(name, title, 3.2, draw)


def _mean_curve(arm: Arm, curves: Mapping[str, pd.DataFrame], x: str) -> pd.DataFrame:
    """Return the mean over the arm's headline repeats at each step, without the points that are not numbers."""
    tables = [curves[job.run_id] for job in arm.headline if job.run_id in curves]
    if not tables:
        return pd.DataFrame(columns=[x, "value"])
    mean = pd.concat(tables)[["step", x, "value"]].groupby("step").mean()
    return mean[mean.apply(lambda row: all(map(math.isfinite, row)), axis=1)] if len(mean) else mean


def _line(axes: Axes, table: pd.DataFrame | None, x: str, arm: int, **style: object) -> None:
    if table is not None and len(table):
        axes.plot(table[x].to_numpy(), table["value"].to_numpy(), color=arm_colour(arm), **style)  # type: ignore[arg-type]


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
