"""Time of each job by phase: a stacked bar of its phases in chronological order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from reports.charts.canvas import (
    BACKGROUND,
    MUTED,
    PHASE_COLOURS,
    PHASE_HATCHES,
    PHASE_PALETTE,
    end_of_axis,
    legend_outside,
    plain_numbers,
    plot,
)
from reports.comparison.arms import Arm, Job, finite_or_zero
from reports.comparison.comparison import Comparison
from reports.model.numbers import figure, short_labels
from reports.model.report import Chart

MAX_BARS = 24
"""Largest number of jobs that get a bar each; with more jobs, each arm gets one bar with the means."""
LABELS = {
    "queue": "queue (not billed)",
    "warmup": "warm-up",
    "train_steady": "training",
    "train": "training",
    "eval": "evaluation",
    "save": "saving",
}
_BAR_INCHES = 0.24
_HEADING_INCHES = 0.30


@dataclass(frozen=True, kw_only=True)
class Row:
    heading: str
    """Text above the bar; empty for an arm's second and later jobs."""
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
    shown = [phase for phase in PHASE_COLOURS if any(row.seconds[phase] > 0 for row in rows)]
    height = sum(_BAR_INCHES + (_HEADING_INCHES if row.heading else 0.0) for row in rows)

    def draw(axes: Axes) -> None:
        y = 0.0
        for row in rows:
            if row.heading:
                axes.text(0, y + 0.05, row.heading, va="top", ha="left", fontsize=10)
                y += _HEADING_INCHES
            _stack(axes, y + _BAR_INCHES / 2, row, longest)
            y += _BAR_INCHES
        axes.set(ylim=(height + 0.05, 0), xlim=(0, end_of_axis(ends)), yticks=[], xlabel="seconds")
        plain_numbers(axes)
        axes.grid(axis="x", linewidth=0.7)
        handles = [axes.barh(0, 0, **_style(phase), label=LABELS.get(phase, phase)) for phase in shown]
        legend_outside(axes, loc="outside lower center", handles=handles, ncols=3, fontsize=10, handlelength=0.9)

    return plot("phases", title, height + 1.2, draw, _description(rows), palette=PHASE_PALETTE)


def rows_of(comparison: Comparison) -> list[Row]:
    """Return a bar per job that has ended and recorded a phase; with many jobs, one bar per arm and cache state."""
    names = short_labels(arm.label for arm in comparison.arms)
    if sum(len(_with_phases(arm.jobs)) for arm in comparison.arms) > MAX_BARS:
        return [row for arm in comparison.arms for row in _mean_rows(arm, names[arm.label])]
    return [row for arm in comparison.arms for row in _job_rows(arm, names[arm.label])]


def _with_phases(jobs: Sequence[Job]) -> list[Job]:
    ended = [(job, seconds_of([job]).items()) for job in jobs if not job.unfinished]
    return [job for job, phases in ended if any(seconds for phase, seconds in phases if phase != "other")]


def _job_rows(arm: Arm, name: str) -> list[Row]:
    jobs = _with_phases(arm.jobs)
    return [Row(heading="" if at else name, note=_note(job), seconds=seconds_of([job])) for at, job in enumerate(jobs)]


def _note(job: Job) -> str:
    state = "" if job.cache_state == "off" else f", {job.cache_state} cache"
    outcome = ", failed" if job.failed else ", stopped" if job.stopped else ""
    return f"{figure(job.number('cost_billable_seconds'))} s{state}{outcome}"


def _mean_rows(arm: Arm, name: str) -> list[Row]:
    rows = []
    for state, succeeded in [(arm.cache_state, arm.compared), *arm.other_cache_states.items()]:
        if jobs := _with_phases(succeeded):
            heading = f"{name}{f', {state} cache' if arm.other_cache_states else ''}  (mean of {len(jobs)})"
            seconds = seconds_of(jobs)
            rows.append(Row(heading=heading, note=f"{figure(_billed(jobs))} s", seconds=seconds))
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
    descriptions, heading = [], ""
    for row in rows:
        heading = row.heading or heading
        parts = ", ".join(f"{LABELS.get(p, p)} {figure(seconds)}" for p, seconds in row.seconds.items() if seconds > 0)
        descriptions.append(f"{heading}: {row.note}, of which {parts}")
    return "; ".join(descriptions) + "."
