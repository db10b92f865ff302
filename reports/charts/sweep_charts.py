"""Charts of a sweep.

In the markers of trials, the colour shows the compiler, and the shape shows the learning rate. A hollow marker has no
value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from reports.charts.canvas import GRID, INK, MUTED, arm_colour, legend_below, plain_numbers, plot
from reports.charts.report_charts import phases
from reports.model.numbers import capitalized, figure, score, short_labels
from reports.model.report import Chart
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Trial

_HEIGHT_INCHES = 3.5
_PHASES = "Where the time of the repeats goes: seconds by phase"
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (2, 2)))
"""Dashes that distinguish the lines of compilers without colour."""
_SHAPES = ("^", "v", "D", "s", "P", "X", "*", "<")
_ROWS = ("not reached", "pruned", "failed", "stopped")
"""Rows above the highest value, by outcome."""
_BAND = 0.6
"""Largest width of a batch size's band, in octaves; the markers of compilers and rates lie in it side by side."""
MAX_TICKS = 9
"""Largest number of batch sizes labelled on an axis."""
_LOG_FROM = 8.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


def sweep_charts(sweep: Sweep) -> list[Chart]:
    """Return the charts that have numbers to show."""
    charts = (
        cost_by_batch(sweep),
        throughput_by_batch(sweep),
        pareto(sweep),
        phases(sweep.confirmation, _PHASES) if sweep.confirmation else None,
    )
    return [chart for chart in charts if chart]


def cost_by_batch(sweep: Sweep) -> Chart | None:
    """Plot each trial's cost against its batch size. Trials without a cost are shown above the axis, by outcome."""
    shown = [t for t in sweep.trials if t.setting.batch_size > 0 and t.kind != "running"]
    valued, kinds = [t for t in shown if t.is_comparable], {t.kind for t in shown}
    if not valued:
        return None
    marks, outcomes = Marks(sweep), [kind for kind in _ROWS if kind in kinds]

    def draw(axes: Axes) -> None:
        rows = value_axis(axes, [t.cost for t in valued], outcomes, sweep.spec.noun)
        _lines_of_the_best(axes, marks, valued)
        for trial in shown:
            y = trial.cost if trial.is_comparable else rows.get(trial.kind)
            if y is not None:
                marks.draw(axes, trial, marks.x(trial), y, hollow=not trial.has_value)
        batch_axis(axes, (t.setting.batch_size for t in shown))
        marks.legend(axes, shown)

    title = f"{capitalized(sweep.spec.cost_name)} by batch size"
    return plot("cost_by_batch", title, _HEIGHT_INCHES, draw, describe_trials(shown))


def throughput_by_batch(sweep: Sweep) -> Chart | None:
    """Return the calibrated samples per second over the batch size."""
    shown = [(c.compiler, s) for c in sweep.calibrations for s in c.sizes if s.fits and s.samples_per_second > 0]
    if not shown:
        return None
    marks = Marks(sweep)

    def draw(axes: Axes) -> None:
        value_axis(axes, [size.samples_per_second for _, size in shown], [], "samples/s")
        for compiler in dict.fromkeys(name for name, _ in shown):
            sizes, colour = [size for name, size in shown if name == compiler], marks.colour(compiler)
            points = sorted((math.log2(size.batch_size), size.samples_per_second) for size in sizes)
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=marks.dashes(compiler), linewidth=1.2)
            for size in sizes:
                x, rate = math.log2(size.batch_size), size.samples_per_second
                if size.low > 0 and size.high > 0:
                    ends = [rate * size.step_seconds / end for end in (size.high, size.low)]
                    axes.plot([x, x], ends, color=colour, linewidth=1.4)
                marks.put(axes, marks.mark(compiler), x, rate)
        batch_axis(axes, (size.batch_size for _, size in shown))
        legend(axes, marks.named(name for name, _ in shown))

    by_compiler: dict[str, list[str]] = {}
    for name, size in shown:
        by_compiler.setdefault(name, []).append(f"{figure(size.samples_per_second)} at batch {size.batch_size:g}")
    description = "; ".join(f"{name}, samples/s: {', '.join(texts)}" for name, texts in by_compiler.items())
    title = "Samples per second by batch size, as calibrated"
    return plot("throughput_by_batch", title, _HEIGHT_INCHES, draw, f"{description}.")


def pareto(sweep: Sweep) -> Chart | None:
    """Return cost and quality with the Pareto front; None if a target makes the quality equal."""
    shown = [trial for trial in sweep.trials if trial.is_comparable and math.isfinite(trial.quality)]
    if len(shown) < 2 or (sweep.spec.target is not None and not sweep.spec.is_front):
        return None
    marks = Marks(sweep)

    def draw(axes: Axes) -> None:
        front = sweep.front
        on_front = {trial.job.run_id for trial in front}
        value_axis(axes, [t.quality for t in shown], [], sweep.spec.quality_name, from_zero=False)
        axes.step([t.cost for t in front], [t.quality for t in front], where="post", color=MUTED, linewidth=1.2)
        for trial in shown:
            marks.draw(axes, trial, trial.cost, trial.quality, hollow=trial.job.run_id not in on_front)
        axes.set_xlim(0, 1.08 * max(t.cost for t in shown))
        axes.set_xlabel(sweep.spec.noun)
        plain_numbers(axes)
        axes.grid(linewidth=0.7)
        marks.legend(axes, shown, Line2D([], [], color=MUTED, linewidth=1.2, label="Pareto front"))

    title = f"Cost and {sweep.spec.quality_name}: filled markers are Pareto-optimal"
    optimal = "; ".join(f"{t.setting}: {figure(t.cost)}, {score(t.quality)}" for t in sweep.front)
    description = f"Pareto-optimal: {optimal}. {describe_trials(shown)}"
    return plot("pareto", title, _HEIGHT_INCHES, draw, description)


def _lines_of_the_best(axes: Axes, marks: Marks, trials: Sequence[Trial]) -> None:
    """Draw a line through each compiler's best costs over the batch sizes."""
    best_last = sorted(trials, key=lambda trial: trial.cost, reverse=not marks.sweep.spec.is_rate)
    for compiler in marks.sweep.compilers:
        best = {trial.setting.batch_size: trial for trial in best_last if trial.setting.compiler == compiler}
        if len(best) > MAX_TICKS:
            continue  # trials cover a fine grid sparsely, so the line would jump between learning rates
        points = [(marks.x(best[size]), best[size].cost) for size in sorted(best)]
        style = {"color": marks.colour(compiler), "linestyle": marks.dashes(compiler)}
        axes.plot([x for x, _ in points], [y for _, y in points], linewidth=1.2, alpha=0.7, **style)


@dataclass(frozen=True)
class Marks:
    sweep: Sweep

    @cached_property
    def rates(self) -> list[tuple[float, str]]:
        """Multipliers and scaling rules of the trials, sorted."""
        return sorted({trial.setting.rate for trial in self.sweep.trials})

    def colour(self, compiler: str) -> str:
        return arm_colour(self.sweep.compilers.index(compiler))

    def dashes(self, compiler: str) -> Any:
        return _DASHES[self.sweep.compilers.index(compiler) % len(_DASHES)]

    def mark(self, compiler: str, shape: str = "o", *, hollow: bool = False, **more: Any) -> Line2D:
        """Return a compiler's marker without a position."""
        colour = self.colour(compiler)
        style: dict[str, Any] = {"linestyle": "", "markersize": 7, "clip_on": False, **more}
        return Line2D([], [], color=colour, marker=shape, markerfacecolor="none" if hollow else colour, **style)

    def shape(self, rate: tuple[float, str]) -> str:
        """Return a rate's shape: a circle for the rate of the scaling rule itself, and another one for each other."""
        others = [each for each in self.rates if each != (1.0, "")]
        return _SHAPES[others.index(rate) % len(_SHAPES)] if rate in others else "o"

    def x(self, trial: Trial) -> float:
        """Return a trial's position on an axis of batch sizes, next to the other compilers and rates."""
        setting, compilers = trial.setting, self.sweep.compilers
        of_compiler = _centred(compilers.index(setting.compiler), len(compilers), self.band)
        of_rate = _centred(self.rates.index(setting.rate), len(self.rates), 0.9 * self.band / len(compilers))
        return math.log2(setting.batch_size) + of_compiler + of_rate

    @cached_property
    def band(self) -> float:
        """Width of a batch size's band of markers, in octaves."""
        calibrated = {size.batch_size for each in self.sweep.calibrations for size in each.sizes}
        sizes = sorted(calibrated | {t.setting.batch_size for t in self.sweep.trials if t.setting.batch_size > 0})
        return min([_BAND, *(0.7 * math.log2(right / left) for left, right in pairwise(sizes))])

    def draw(self, axes: Axes, trial: Trial, x: float, y: float, *, hollow: bool = False) -> None:
        """Draw a trial's marker, with a ring if it is the best trial."""
        shape = self.shape(trial.setting.rate)
        self.put(axes, self.mark(trial.setting.compiler, shape, hollow=hollow), x, y)
        if trial is self.sweep.best and not self.sweep.spec.is_front:
            axes.plot(x, y, "o", color=INK, markerfacecolor="none", markersize=13, clip_on=False)

    def put(self, axes: Axes, mark: Line2D, x: float, y: float) -> None:
        mark.set_data([x], [y])
        axes.add_line(mark)

    def legend(self, axes: Axes, trials: Sequence[Trial], *more: Line2D) -> None:
        """Add a legend of these trials' colours and shapes below the chart."""
        rates = {trial.setting.rate for trial in trials}
        shapes = [
            Line2D([], [], color=MUTED, marker=self.shape(rate), linestyle="", label=_rate_label(*rate))
            for rate in sorted(rates)
        ]
        is_best = any(trial is self.sweep.best for trial in trials) and not self.sweep.spec.is_front
        best = Line2D([], [], color=INK, marker="o", markerfacecolor="none", markersize=10, linestyle="", label="best")
        named = self.named({trial.setting.compiler for trial in trials})
        legend(axes, [*named, *(shapes if len(rates) > 1 else []), *([best] if is_best else []), *more])

    def named(self, compilers: Iterable[str]) -> list[Line2D]:
        """Return the legend entries of these compilers: a line with a marker."""
        shown, names = set(compilers), short_labels(self.sweep.compilers, 20)
        return [
            self.mark(name, linestyle=self.dashes(name), linewidth=1.6, label=names[name])
            for name in self.sweep.compilers
            if name in shown
        ]


def _rate_label(multiplier: float, rule: str) -> str:
    factor = f"rate × {multiplier:.3g}"
    return factor if not rule else f"rate scaled by {rule}" if multiplier == 1 else f"{factor}, {rule}"


def legend(axes: Axes, handles: Sequence[Line2D]) -> None:
    legend_below(axes, handles, fontsize=9.5, handlelength=2.0, columnspacing=1.2)


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
    axes.set_yticks([*ticks, *heights.values()], [*(f"{t:,.6g}" for t in ticks), *heights])
    axes.set_yticks([], minor=True)
    axes.set_ylabel(label)
    if heights:
        first = min(heights.values())
        edge = math.sqrt(high * first) if is_log else (high + first) / 2
        axes.axhline(edge, color=GRID, linewidth=1.2, linestyle=(0, (4, 3)))
    return heights


def _centred(at: int, n: int, width: float) -> float:
    """Return the position of the `at`-th of `n` items in a band of this width around 0."""
    return width * ((at + 0.5) / n - 0.5) if n > 1 else 0.0


def describe_trials(trials: Sequence[Trial]) -> str:
    """Return the number of trials by outcome, and where their values are listed."""
    outcomes = ", ".join(f"{count} {kind}" for kind, count in Counter(trial.kind for trial in trials).most_common())
    return f"{len(trials)} trials: {outcomes}. The table of trials lists their values."
