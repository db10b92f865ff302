"""Charts of a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.charts.canvas import MUTED, plot
from reports.charts.phases import phases
from reports.charts.sweep_descriptions import describe_points, describe_trials
from reports.charts.sweep_importance import importance
from reports.charts.sweep_markers import MAX_TICKS, Marks, batch_axis, legend, rows_of, thousands, value_axis
from reports.comparison.equal_work import BILLABLE
from reports.model.blocks import Chart
from reports.model.numbers import figure, score
from reports.model.wording import capitalized
from reports.sweep.grid_cost import seconds_per_sample
from reports.sweep.sweep import Sweep
from reports.sweep.tables import peak_memory_gib
from reports.sweep.trials import Setting, Size, Trial
from reports.sweep.units import cost_name, cost_noun, quality_name

_HEIGHT_INCHES = 3.5
_PHASES = "Where the time of the repeats goes: seconds by phase"


def sweep_charts(sweep: Sweep) -> list[Chart]:
    """Return the charts that have numbers to show."""
    charts = (
        cost_by_batch(sweep),
        throughput_by_batch(sweep),
        memory_by_batch(sweep),
        quality_by_batch(sweep),
        pareto(sweep),
        history(sweep),
        importance(sweep),
        phases(sweep.confirmation, _PHASES) if sweep.confirmation else None,
    )
    return [chart for chart in charts if chart]


def cost_by_batch(sweep: Sweep) -> Chart | None:
    """Plot each trial's cost against its batch size. Trials without a cost are shown above the axis, by outcome."""
    shown = [t for t in sweep.trials if t.setting.batch_size > 0 and t.kind != "running"]
    valued = [t for t in shown if _is_valued(t)]
    if not valued:
        return None
    marks = Marks(sweep)

    def draw(axes: Axes) -> None:
        rows = value_axis(axes, [t.cost for t in valued], rows_of(shown), cost_noun(sweep))
        _lines_of_the_best(axes, marks, valued, lambda t: t.cost, sweep.spec.is_rate)
        for trial in shown:
            y = trial.cost if _is_valued(trial) else rows.get(trial.kind)
            if y is not None:
                marks.draw(axes, trial, marks.x(trial), y, hollow=not trial.has_value)
        batch_axis(axes, (t.setting.batch_size for t in shown))
        marks.legend(axes, shown)

    title = f"{capitalized(cost_name(sweep))} by batch size"
    return plot("cost_by_batch", title, _HEIGHT_INCHES, draw, describe_trials(shown))


def throughput_by_batch(sweep: Sweep) -> Chart | None:
    """Return the calibrated samples per second over the batch size, with the fitted model's line."""
    shown = [(c.compiler, s) for c in sweep.calibrations for s in c.sizes if s.fits and s.samples_per_second > 0]
    if not shown:
        return None
    marks = Marks(sweep)

    def draw(axes: Axes) -> None:
        value_axis(axes, [size.samples_per_second for _, size in shown], [], "samples/s")
        for compiler in dict.fromkeys(name for name, _ in shown):
            sizes, colour = [size for name, size in shown if name == compiler], marks.colour(compiler)
            _model_line(axes, marks, compiler, sizes)
            for size in sizes:
                x, rate = math.log2(size.batch_size), size.samples_per_second
                if size.low > 0 and size.high > 0:
                    ends = [rate * size.step_seconds / end for end in (size.high, size.low)]
                    axes.plot([x, x], ends, color=colour, linewidth=1.4)
                marks.put(axes, marks.mark(compiler), x, rate)
        batch_axis(axes, (size.batch_size for _, size in shown))
        line = Line2D([], [], color=MUTED, linewidth=1.2, label="line: fitted step time")
        has_model = any(name in sweep.spec.models for name, _ in shown)
        legend(axes, [*marks.named(name for name, _ in shown), *([line] if has_model else [])])

    points = [(name, size.batch_size, size.samples_per_second) for name, size in shown]
    title = "Samples per second by batch size, as calibrated"
    return plot("throughput_by_batch", title, _HEIGHT_INCHES, draw, describe_points(points, "samples/s"))


def memory_by_batch(sweep: Sweep) -> Chart | None:
    """Return the peak memory over the batch size, from calibrations or else trials, with sizes that do not fit."""
    shown = [(c.compiler, s.batch_size, s.peak_memory_gib) for c in sweep.calibrations for s in c.sizes]
    if not any(value > 0 for _, _, value in shown):
        shown = [(t.setting.compiler, t.setting.batch_size, peak_memory_gib(t)) for t in sweep.trials]
    fitting = sorted({row for row in shown if row[1] > 0 and row[2] > 0})
    too_large = {(c.compiler, size) for c in sweep.calibrations for size in c.too_large}
    if not fitting:
        return None
    marks = Marks(sweep)

    def draw(axes: Axes) -> None:
        rows = value_axis(
            axes, [value for _, _, value in fitting], ["too large"] if too_large else [], "peak memory, GiB"
        )
        for compiler in dict.fromkeys(name for name, _, _ in fitting):
            points = [(marks.x_of(name, size, 0.3), value) for name, size, value in fitting if name == compiler]
            style = marks.dashes(compiler)
            axes.plot(*zip(*points, strict=True), color=marks.colour(compiler), linewidth=1.4, linestyle=style)
            for x, value in points:
                marks.put(axes, marks.mark(compiler), x, value)
        for compiler, size in too_large:
            marks.put(axes, marks.mark(compiler, hollow=True), marks.x_of(compiler, size, 0.3), rows["too large"])
        batch_axis(axes, [*(size for _, size, _ in fitting), *(size for _, size in too_large)])
        legend(axes, marks.named({name for name, _, _ in fitting} | {name for name, _ in too_large}))

    unfit = "".join(f" Batch {size:g} does not fit under {name}." for name, size in sorted(too_large))
    description = describe_points(fitting, "GiB") + unfit
    return plot("memory_by_batch", "Peak memory by batch size", _HEIGHT_INCHES, draw, description)


def quality_by_batch(sweep: Sweep) -> Chart | None:
    """Return the quality over the batch size: after equal samples if a target ends the jobs, else at the end."""
    name, is_equal = quality_name(sweep), sweep.spec.target is not None
    shown = [
        (trial, value)
        for trial in sweep.trials
        if trial.setting.batch_size > 0
        and math.isfinite(
            value := sweep.at_common_samples.get(trial.job.run_id, math.nan) if is_equal else trial.quality
        )
        and (is_equal or trial.kind in ("completed", "worse"))
    ]
    if not shown:
        return None
    marks, values = Marks(sweep), {trial.job.run_id: value for trial, value in shown}

    def draw(axes: Axes) -> None:
        bound = sweep.spec.bound
        value_axis(axes, [*values.values(), *([bound] if bound is not None else [])], [], name, from_zero=False)
        trials = [trial for trial, _ in shown]
        _lines_of_the_best(axes, marks, trials, lambda t: values[t.job.run_id], sweep.spec.higher_is_better)
        for trial, value in shown:
            marks.draw(axes, trial, marks.x(trial), value, hollow=not trial.has_value)
        batch_axis(axes, (t.setting.batch_size for t in trials))
        dashes = Line2D([], [], color=MUTED, linestyle="--", label="bound")
        if bound is not None:
            axes.axhline(bound, color=MUTED, linewidth=1.2, linestyle="--")
        marks.legend(axes, trials, *([dashes] if bound is not None else []))

    after = f", after {figure(sweep.common_samples)} samples" if is_equal else ""
    points = [(trial.setting.compiler, trial.setting.batch_size, value) for trial, value in shown]
    description = describe_points(points, name)
    return plot("quality_by_batch", f"{name} by batch size{after}", _HEIGHT_INCHES, draw, description)


def pareto(sweep: Sweep) -> Chart | None:
    """Return cost and quality with the Pareto front; None if a target makes the quality equal."""
    shown = [t for t in sweep.trials if t.kind in ("completed", "worse") and math.isfinite(t.cost + t.quality)]
    if len(shown) < 2 or (sweep.spec.target is not None and not sweep.spec.is_front):
        return None
    marks = Marks(sweep)

    def draw(axes: Axes) -> None:
        front = sweep.front
        on_front = {trial.job.run_id for trial in front}
        value_axis(axes, [t.quality for t in shown], [], quality_name(sweep), from_zero=False)
        axes.step([t.cost for t in front], [t.quality for t in front], where="post", color=MUTED, linewidth=1.2)
        for trial in shown:
            marks.draw(axes, trial, trial.cost, trial.quality, hollow=trial.job.run_id not in on_front)
        axes.set_xlim(0, 1.08 * max(t.cost for t in shown))
        axes.set_xlabel(cost_noun(sweep))
        thousands(axes)
        axes.grid(linewidth=0.7)
        marks.legend(axes, shown, Line2D([], [], color=MUTED, linewidth=1.2, label="Pareto front"))

    title = f"Cost and {quality_name(sweep)}: filled markers are Pareto-optimal"
    optimal = "; ".join(f"{t.setting}: {figure(t.cost)}, {score(t.quality)}" for t in sweep.front)
    description = f"Pareto-optimal: {optimal}. {describe_trials(shown)}"
    return plot("pareto", title, _HEIGHT_INCHES, draw, description)


def history(sweep: Sweep) -> Chart | None:
    """Return each trial and the best cost so far by compiler, over the accumulated cost of the search."""
    ended = sorted((t for t in sweep.trials if t.kind != "running"), key=_ended_seconds)
    before = math.fsum(_billed(job.number(BILLABLE)) for job in sweep.jobs if _is_before(job.text.get("role")))
    spent = [before + total for total in accumulate(_billed(trial.job.number(BILLABLE)) for trial in ended)]
    valued = [t for t in ended if _is_valued(t)]
    if not valued:
        return None
    marks, better = Marks(sweep), max if sweep.spec.is_rate else min

    def draw(axes: Axes) -> None:
        base = [sweep.base_cost] if math.isfinite(sweep.base_cost) else []
        rows = value_axis(axes, [*(t.cost for t in valued), *base], rows_of(ended), cost_noun(sweep))
        for compiler in sweep.compilers:
            path = [
                (x, t.cost) for x, t in zip(spent, ended, strict=True) if t.has_value and t.setting.compiler == compiler
            ]
            if path:
                xs, ys = [x for x, _ in path], list(accumulate((y for _, y in path), better))
                colour, style = marks.colour(compiler), marks.dashes(compiler)
                axes.step([*xs, spent[-1]], [*ys, ys[-1]], where="post", color=colour, linestyle=style, linewidth=1.8)
        for x, trial in zip(spent, ended, strict=True):
            y = trial.cost if _is_valued(trial) else rows.get(trial.kind)
            if y is not None:
                marks.draw(axes, trial, x, y, hollow=not trial.has_value)
        for value in base:
            axes.axhline(value, color=MUTED, linewidth=1.2, linestyle="--")
        axes.set_xlim(0, 1.04 * (spent[-1] or 1.0))
        axes.set_xlabel("billable instance seconds spent, calibration included")
        thousands(axes)
        axes.grid(axis="y", linewidth=0.7)
        marks.legend(axes, ended, *(Line2D([], [], color=MUTED, linestyle="--", label="base setting") for _ in base))

    return plot("history", "Best cost so far over the cost of the search", _HEIGHT_INCHES, draw, describe_trials(ended))


def _is_valued(trial: Trial) -> bool:
    return trial.kind in ("completed", "worse") and math.isfinite(trial.cost)


def _billed(seconds: float) -> float:
    return seconds if 0 < seconds < math.inf else 0.0


def _is_before(role: str | None) -> bool:
    return role in ("calibration", "baseline")


def _ended_seconds(trial: Trial) -> float:
    started = trial.job.number("training_start_time")
    started = started if math.isfinite(started) else trial.job.number("start_time_ms") / 1000
    billed = trial.job.number("cost_billable_seconds")
    ended = started + (billed if billed > 0 else 0.0)
    return ended if math.isfinite(ended) else math.inf


def _lines_of_the_best(
    axes: Axes, marks: Marks, trials: Sequence[Trial], value: Callable[[Trial], float], highest: bool
) -> None:
    """Draw a line through each compiler's best values over the batch sizes."""
    for compiler in marks.sweep.compilers:
        by_size: dict[float, list[Trial]] = {}
        for trial in trials:
            if trial.setting.compiler == compiler:
                by_size.setdefault(trial.setting.batch_size, []).append(trial)
        if len(by_size) > MAX_TICKS:
            continue  # trials cover a fine grid sparsely, so the line would jump between learning rates
        best = [(max if highest else min)(by_size[size], key=value) for size in sorted(by_size)]
        points = [marks.x(trial) for trial in best], [value(trial) for trial in best]
        style = marks.dashes(compiler)
        axes.plot(*points, color=marks.colour(compiler), linewidth=1.2, linestyle=style, alpha=0.7)


def _model_line(axes: Axes, marks: Marks, compiler: str, sizes: Sequence[Size]) -> None:
    low, high = min(s.batch_size for s in sizes), max(s.batch_size for s in sizes)
    xs = [math.log2(low) + at / 40 * math.log2(high / low) for at in range(41)]
    rates = [1 / seconds_per_sample(marks.sweep, Setting(compiler, 2**x)) for x in xs]
    if all(map(math.isfinite, rates)):
        axes.plot(xs, rates, color=marks.colour(compiler), linestyle=marks.dashes(compiler), linewidth=1.2)
