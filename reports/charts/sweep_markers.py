"""Markers of trials in a sweep's charts.

Colour and core show the compiler, and the shape shows the learning rate. A hollow marker has no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from reports.charts.canvas import BACKGROUND, GRID, INK, MUTED, arm_colour
from reports.model.wording import short
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Trial

_CORES = ("", ".", "_", "|", "x")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (2, 2)))
"""Marker cores and line dashes that distinguish compilers without colour."""
_ABOVE, _BELOW = ("^", "D", "P", "*"), ("v", "s", "X", "<")
_ROWS = {"not reached": "not reached", "pruned": "pruned", "failed": "failed", "stopped": "stopped"}
"""Rows above the highest value, by outcome."""
_BAND = 0.6
"""Largest width of a batch size's band, in octaves; the markers of compilers and rates lie in it side by side."""
MAX_TICKS = 9
"""Largest number of batch sizes labelled on an axis."""
_LOG_FROM = 8.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


@dataclass(frozen=True)
class Marks:
    """Markers of one sweep."""

    sweep: Sweep

    @cached_property
    def multipliers(self) -> list[float]:
        """All learning rate factors of the trials."""
        return sorted({trial.setting.multiplier for trial in self.sweep.trials})

    def colour(self, compiler: str) -> str:
        """Return a compiler's colour."""
        return arm_colour(self.sweep.compilers.index(compiler))

    def dashes(self, compiler: str) -> Any:
        """Return the dash pattern of a compiler's line in the chart."""
        return _DASHES[self.sweep.compilers.index(compiler) % len(_DASHES)]

    def mark(self, compiler: str, shape: str = "o", *, hollow: bool = False, **more: Any) -> tuple[Line2D, ...]:
        """Return a compiler's marker without a position: its shape and its core."""
        colour, core = self.colour(compiler), _CORES[self.sweep.compilers.index(compiler) % len(_CORES)]
        face = "none" if hollow else colour
        style: dict[str, Any] = {"linestyle": "", "markersize": 7, "clip_on": False, **more}
        outer = Line2D([], [], color=colour, marker=shape, markerfacecolor=face, **style)
        inner = Line2D([], [], color=colour if hollow else BACKGROUND, marker=core, markersize=4, linestyle="")
        inner.set_clip_on(False)
        return (outer, inner) if core else (outer,)

    def shape(self, multiplier: float) -> str:
        """Return a factor's shape: a circle for 1, and a triangle up or down for the next factors."""
        above = sorted(m for m in self.multipliers if m > 1)
        below = sorted((m for m in self.multipliers if m < 1), reverse=True)
        if multiplier == 1 or multiplier not in above + below:
            return "o"
        shapes, at = (_ABOVE, above.index(multiplier)) if multiplier > 1 else (_BELOW, below.index(multiplier))
        return shapes[min(at, len(shapes) - 1)]

    def x(self, trial: Trial) -> float:
        """Return a trial's position on an axis of batch sizes, beside the other compilers and rates."""
        factors, band = self.multipliers, self.band / len(self.sweep.compilers)
        offset = _centred(factors.index(trial.setting.multiplier), len(factors), 0.9 * band)
        return self.x_of(trial.setting.compiler, trial.setting.batch_size) + offset

    def x_of(self, compiler: str, batch_size: float, share: float = 1.0) -> float:
        """Return the middle of a compiler's markers, within this share of a batch size's band."""
        compilers = self.sweep.compilers
        return math.log2(batch_size) + _centred(compilers.index(compiler), len(compilers), share * self.band)

    @cached_property
    def band(self) -> float:
        """Width of a batch size's band of markers, in octaves."""
        calibrated = {size.batch_size for each in self.sweep.calibrations for size in each.sizes}
        sizes = sorted(calibrated | {t.setting.batch_size for t in self.sweep.trials if t.setting.batch_size > 0})
        return min([_BAND, *(0.7 * math.log2(right / left) for left, right in pairwise(sizes))])

    def draw(self, axes: Axes, trial: Trial, x: float, y: float, *, hollow: bool = False) -> None:
        """Draw a trial's marker, with a ring if it is the best trial."""
        shape = self.shape(trial.setting.multiplier)
        self.put(axes, self.mark(trial.setting.compiler, shape, hollow=hollow), x, y)
        if trial is self.sweep.best and not self.sweep.spec.is_front:
            axes.plot(x, y, "o", color=INK, markerfacecolor="none", markersize=13, clip_on=False)

    def put(self, axes: Axes, mark: tuple[Line2D, ...], x: float, y: float) -> None:
        """Put a marker at a position."""
        for part in mark:
            part.set_data([x], [y])
            axes.add_line(part)

    def legend(self, axes: Axes, trials: Sequence[Trial], *more: Line2D) -> None:
        """Add a legend of these trials' colours and shapes below the chart."""
        multipliers = {trial.setting.multiplier for trial in trials}
        shapes = [
            Line2D([], [], color=MUTED, marker=self.shape(m), linestyle="", label=f"rate × {m:.3g}")
            for m in sorted(multipliers)
        ]
        is_best = any(trial is self.sweep.best for trial in trials) and not self.sweep.spec.is_front
        best = Line2D([], [], color=INK, marker="o", markerfacecolor="none", markersize=10, linestyle="", label="best")
        named = self.named({trial.setting.compiler for trial in trials})
        legend(axes, [*named, *(shapes if len(multipliers) > 1 else []), *([best] if is_best else []), *more])

    def named(self, compilers: Iterable[str]) -> list[tuple[Line2D, ...]]:
        """Return the legend entries of these compilers: a line with a marker."""
        shown = set(compilers)
        return [
            self.mark(name, linestyle=self.dashes(name), linewidth=1.6, label=short(name, 20))
            for name in self.sweep.compilers
            if name in shown
        ]


def legend(axes: Axes, handles: Sequence[Line2D | tuple[Line2D, ...]]) -> None:
    """Put a legend below a chart. The parts of an entry are drawn over each other; the first part has its label."""
    assert isinstance(axes.figure, Figure)
    axes.figure.legend(
        handles=list(handles),
        labels=[str((each[0] if isinstance(each, tuple) else each).get_label()) for each in handles],
        loc="outside lower center",
        ncols=min(3, len(handles)),
        frameon=False,
        fontsize=9.5,
        handlelength=2.0,
        columnspacing=1.2,
    )


def batch_axis(axes: Axes, sizes: Iterable[float]) -> None:
    """Label an axis of batch size logarithms, with as many labels as fit."""
    shown = sorted(set(sizes))
    if len(shown) > MAX_TICKS:
        powers = [size for size in shown if math.log2(size) % 1 == 0]
        shown = powers[:: 1 + len(shown) // 64] or shown[:: len(shown) // MAX_TICKS]
    axes.set_xticks([math.log2(size) for size in shown], [f"{size:g}" for size in shown])
    axes.set_xlim(math.log2(min(shown)) - 0.5, math.log2(max(shown)) + 0.5)
    axes.set_xlabel("batch size per device")
    axes.grid(axis="y", linewidth=0.7)


def value_axis(
    axes: Axes, values: Sequence[float], rows: Sequence[str], label: str, from_zero: bool = True
) -> dict[str, float]:
    """Lay out an axis of values with rows above them, and return the rows' heights.

    The axis is logarithmic if the largest value is more than `_LOG_FROM` times the smallest.
    """
    low, high = min(values), max(values)
    is_log = from_zero and low > 0 and high / low > _LOG_FROM
    if is_log:
        axes.set_yscale("log")
        ticks = [t for t in LogLocator(subs=(1.0, 2.0, 5.0)).tick_values(low, high) if low / 1.5 <= t <= high * 1.15]
        bottom, step = low / 1.3, (high / low) ** 0.12
        heights = {name: high * step ** (at + 1) for at, name in enumerate(rows)}
        top = high * step ** (len(rows) + 0.5)
    else:
        bottom = 0.0 if from_zero else low - 0.08 * ((high - low) or abs(high) or 1.0)
        span = (high - bottom) or 1.0
        ticks = [t for t in MaxNLocator(5).tick_values(bottom, high) if bottom <= t <= high + 0.03 * span]
        heights = {name: high + 0.12 * span * (at + 1) for at, name in enumerate(rows)}
        top = high + span * (0.12 * len(rows) + 0.06)
    axes.set_ylim(bottom, top)
    axes.set_yticks(
        [*ticks, *heights.values()], [*(f"{t:,.6g}" for t in ticks), *(_ROWS.get(name, name) for name in heights)]
    )
    axes.set_yticks([], minor=True)
    axes.set_ylabel(label)
    if heights:
        first = min(heights.values())
        edge = math.sqrt(high * first) if is_log else (high + first) / 2
        axes.axhline(edge, color=GRID, linewidth=1.2, linestyle=(0, (4, 3)))
    return heights


def rows_of(trials: Iterable[Trial]) -> list[str]:
    """Return the rows that these trials need above the values."""
    kinds = {trial.kind for trial in trials}
    return [kind for kind in _ROWS if kind in kinds]


def thousands(axes: Axes) -> None:
    """Add thousands separators to the horizontal axis."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _centred(at: int, n: int, width: float) -> float:
    """Return the position of the `at`-th of `n` items in a band of this width around 0."""
    return width * ((at + 0.5) / n - 0.5) if n > 1 else 0.0
