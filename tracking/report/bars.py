"""Bar charts: one labelled row an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tracking.report.arms import Arm, Job, finite_or_zero
from tracking.report.canvas import BACKGROUND, INK, PHASE_COLOURS, Plot, arm_colour, plot, short
from tracking.report.comparison import STEADY, Comparison
from tracking.report.numbers import Summary, gain_percent
from tracking.report.probes import Probes
from tracking.report.words import figure, signed_percent
from tracking.report.work import PAID

PHASE_LABELS = {"warmup": "warm-up", "train_steady": "training", "train": "training", "eval": "evaluation"}
_ROW_INCHES = 0.56
_BAR_HEIGHT = 0.42
_WIDEST = 20.0
"""Upper end of an interval, as a ratio, beyond which a picture shows nothing; the page still tells it in words."""


def bars(comparison: Comparison, column: str, name: str, title: str, unit: str) -> Plot | None:
    """Return a bar an arm: median, extremes, and the change against the baseline; None without numbers."""
    rows = [(i, arm, told) for i, arm in enumerate(comparison.arms) if (told := arm.summary(column))]
    if not rows:
        return None
    longest = max(told.high for _, _, told in rows)

    def draw(axes: Axes) -> None:
        for y, (i, arm, told) in enumerate(rows):
            axes.barh(y, told.median, height=_BAR_HEIGHT, color=arm_colour(i))
            if told.n > 1:
                axes.plot([told.low, told.high], [y, y], color=INK, linewidth=1.4, marker="|", markersize=7)
            note = f"{figure(told.median)}{_against_baseline(comparison, arm, column, told)}"
            _label(axes, y, f"{short(arm.label)}  (n = {told.n})", note, told.high)
        _finish(axes, len(rows), longest, f"{unit}; median, line: lowest to highest")

    return plot(name, f"{title}: {unit}", _height(len(rows)), draw)


def intervals(comparison: Comparison) -> Plot | None:
    """Return each arm's billable instance seconds against the baseline's with their interval; None without any."""
    told = [(i, c.arm, c.verdict.ratio) for i, c in enumerate(comparison.contrasts, start=1)]
    rows = [(i, arm, ratio) for i, arm, ratio in told if ratio and ratio.high < _WIDEST]
    if not rows:
        return None
    left = min(-10.0, *(gain_percent(ratio.low) for _, _, ratio in rows))
    right = max(10.0, *(gain_percent(ratio.high) for _, _, ratio in rows))

    baseline = comparison.arms[0].label

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=INK, linewidth=1)
        for y, (i, arm, ratio) in enumerate(rows):
            ends = [gain_percent(ratio.low), gain_percent(ratio.high)]
            axes.plot(ends, [y, y], color=arm_colour(i), linewidth=3, solid_capstyle="round")
            axes.plot(gain_percent(ratio.estimate), y, color=arm_colour(i), marker="o", markersize=8)
            interval = f"{signed_percent(ratio.low)} to {signed_percent(ratio.high)}"
            label = axes.text(left, y - 0.30, f"{short(arm.label)}  ({interval})", va="bottom", fontsize=10)
            label.set_bbox({"facecolor": BACKGROUND, "edgecolor": "none", "pad": 0.5})  # the line at 0 may run behind
        _finish(axes, len(rows), right, f"change in billable instance seconds against “{short(baseline, 20)}”, %")
        axes.set_xlim(left - 0.03 * (right - left), right + 0.03 * (right - left))

    return plot("interval", "Billable time against the baseline: 95 % interval", _height(len(rows)), draw)


def projections(probes: Probes, comparison: Comparison) -> Plot | None:
    """Return a bar an arm, in its colour elsewhere: its projected cost with the interval; None without any."""
    rows, labels = probes.projected, [arm.label for arm in comparison.arms]
    if not rows:
        return None

    def draw(axes: Axes) -> None:
        for y, each in enumerate(rows):
            paid = each.paid
            colour = arm_colour(labels.index(each.arm.label))
            axes.barh(y, paid.estimate, height=_BAR_HEIGHT, color=colour)
            axes.plot([paid.low, paid.high], [y, y], color=INK, linewidth=1.4, marker="|", markersize=7)
            _label(axes, y, short(each.arm.label), figure(paid.estimate), paid.high)
        _finish(axes, len(rows), max(each.paid.high for each in rows), f"{probes.unit}; line: 95 % interval")

    return plot("projection", f"Projected for the whole training: {probes.unit}", _height(len(rows)), draw)


def labelled_bars(rows: Sequence[tuple[str, float, str]], name: str, title: str, label: str) -> Plot:
    """Return a bar for each (label, value, colour)."""

    def draw(axes: Axes) -> None:
        for y, (text, value, colour) in enumerate(rows):
            axes.barh(y, value, height=_BAR_HEIGHT, color=colour)
            _label(axes, y, text, figure(value), value)
        _finish(axes, len(rows), max(value for _, value, _ in rows) or 1.0, label)

    return plot(name, title, _height(len(rows)), draw)


def phases(comparison: Comparison) -> Plot | None:
    """Return a stacked bar of the phases for each arm and cache state; None when no job tells any."""
    rows = [(label, seconds) for label, seconds in _phase_rows(comparison) if sum(seconds.values()) > seconds["other"]]
    if not rows:
        return None
    longest = max(sum(seconds.values()) for _, seconds in rows)
    shown = [phase for phase in PHASE_COLOURS if any(seconds[phase] > 0 for _, seconds in rows)]

    def draw(axes: Axes) -> None:
        for y, (label, seconds) in enumerate(rows):
            _stack(axes, y, seconds, longest)
            total = sum(seconds.values())
            _label(axes, y, label, f"{figure(total)} s", total)
        _finish(axes, len(rows), longest, "billable seconds, mean over the jobs")
        handles = [axes.barh(0, 0, color=PHASE_COLOURS[p], label=PHASE_LABELS.get(p, p)) for p in shown]
        assert isinstance(axes.figure, Figure)
        axes.figure.legend(
            handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9.5, handlelength=0.9
        )

    return plot("phases", "Where the time goes: seconds by phase", _height(len(rows)) + 0.5, draw)


def _phase_rows(comparison: Comparison) -> list[tuple[str, dict[str, float]]]:
    rows = []
    for arm in comparison.arms:
        for state, jobs in [(arm.cache_state, arm.headline), *arm.asides.items()]:
            suffix = f", {state} cache" if arm.asides else ""
            if jobs:
                rows.append((f"{short(arm.label)}{suffix}  (n = {len(jobs)})", _mean_phases(jobs)))
    return rows


def _against_baseline(comparison: Comparison, arm: Arm, column: str, told: Summary) -> str:
    """Return the change against the baseline as the verdict counts it, or that of the medians."""
    contrast = next((c for c in comparison.contrasts if c.arm is arm), None)
    baseline = comparison.arms[0].summary(column)
    if contrast is None or baseline is None or baseline.median <= 0 or contrast.verdict.outcome == "not comparable":
        return ""
    interval = {STEADY: contrast.speed_up, PAID: contrast.verdict.ratio}.get(column)
    return f"  {signed_percent(interval.estimate if interval else told.median / baseline.median)}"


def _mean_phases(jobs: Sequence[Job]) -> dict[str, float]:
    """Return the mean seconds of each phase; `other` is what is billed and belongs to none."""
    told = [p for p in PHASE_COLOURS if p != "other"]
    means = {p: fmean(finite_or_zero(job.number(f"time_{p}_seconds")) for job in jobs) for p in told}
    billed = fmean(finite_or_zero(job.number("cost_billable_seconds")) for job in jobs)
    return {**means, "other": max(0.0, billed - sum(means.values()))}


def _stack(axes: Axes, y: float, seconds: Mapping[str, float], longest: float) -> None:
    left = 0.0
    for phase, width in seconds.items():
        axes.barh(
            y, width, left=left, height=_BAR_HEIGHT, color=PHASE_COLOURS[phase], edgecolor=BACKGROUND, linewidth=1
        )
        if width > 0.11 * longest and phase != "other":
            axes.text(left + width / 2, y, figure(width), ha="center", va="center", color="white", fontsize=9)
        left += width


def _label(axes: Axes, y: float, text: str, note: str, end: float) -> None:
    """Put `text` above the row's bar, where long names fit, and `note` after it."""
    axes.text(0, y - 0.30, text, va="bottom", ha="left", fontsize=10)
    axes.annotate(note, (end, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=10)


def _finish(axes: Axes, rows: int, longest: float, label: str) -> None:
    axes.set(ylim=(rows - 0.6, -0.75), xlim=(0, 1.34 * longest), yticks=[], xlabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(axis="x", linewidth=0.7)


def _height(rows: int) -> float:
    return 0.65 + _ROW_INCHES * rows
