"""A sweep's jobs as settings, trials and calibrations. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from reports.comparison.arms import Job
from reports.comparison.comparison import STEADY
from reports.comparison.equal_work import DOLLARS, PAID
from reports.comparison.text import short
from reports.sweep.sweep_spec import Asked

Kind = Literal["completed", "worse", "not reached", "pruned", "failed", "running"]
"""How a trial ended; a `worse` one has completed with a quality beyond the bound."""
KINDS: tuple[Kind, ...] = ("completed", "worse", "not reached", "pruned", "failed", "running")

COST_COLUMNS = {"billable_seconds": PAID, "usd": DOLLARS.column, "steady_samples_per_second": STEADY}
CALIBRATION_COLUMNS = (
    *("fits", "step_seconds", "step_seconds_low", "step_seconds_high"),
    *("samples_per_second", "peak_memory_gib"),
)
"""A calibration's metrics, whose step is the batch size."""


@dataclass(frozen=True)
class Setting:
    """What a trial varies."""

    compiler: str
    batch_size: float
    """Of each device, samples; NaN where the job does not tell."""
    multiplier: float = 1.0
    """Factor on the learning rate that the scaling rule gives."""

    @property
    def point(self) -> str:
        """Batch size and rate, such as `batch 64, rate × 2`; empty where the job does not tell."""
        rate = f", rate × {self.multiplier:.3g}" if self.multiplier != 1 else ""
        return f"batch {self.batch_size:g}{rate}" if self.batch_size > 0 else ""

    def __str__(self) -> str:
        return f"{self.compiler} at {self.point}" if self.point else self.compiler


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial with what it told."""

    job: Job
    setting: Setting
    number: float
    kind: Kind
    end: str
    """The same in words, such as `pruned: behind the best`."""
    cost: float
    """By the sweep's objective; NaN where unknown."""
    quality: float
    """Of the last evaluation."""

    @property
    def failure(self) -> str:
        """Why it failed: the last line of the message, or nothing."""
        lines = (self.job.text.get("failure_message") or "").strip().splitlines() if self.kind == "failed" else []
        return short(lines[-1], 160) if lines else ""

    @property
    def has_value(self) -> bool:
        """Whether it can be the best: it came to its end, with the quality that was asked for."""
        return self.kind == "completed" and math.isfinite(self.cost)


@dataclass(frozen=True, kw_only=True)
class Size:
    """One batch size of a calibration."""

    batch_size: float
    fits: bool
    """Whether the device's memory is enough for it."""
    step_seconds: float
    low: float
    """Lower end of the 95 % interval of `step_seconds`."""
    high: float
    samples_per_second: float
    peak_memory_gib: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What one compiler's calibration measured."""

    compiler: str
    job: Job
    sizes: tuple[Size, ...]
    """By batch size."""

    @property
    def largest(self) -> float:
        """Largest batch size that fits; NaN without any."""
        return max((size.batch_size for size in self.sizes if size.fits), default=math.nan)

    @property
    def too_large(self) -> tuple[float, ...]:
        """Batch sizes that do not fit."""
        return tuple(size.batch_size for size in self.sizes if not size.fits)


def setting_of(job: Job) -> Setting:
    """Return a job's setting."""
    factor = _told(job, "multiplier", "platform_multiplier", "hp_learning_rate_multiplier")
    size = _told(job, "batch_size", "hp_batch_size")
    return Setting(job.text.get("compiler") or "none", size, rounded(factor) if factor > 0 else 1.0)


def rounded(multiplier: float) -> float:
    """Return a factor to the six digits that runs are tagged with, so that equal ones are equal."""
    return float(f"{multiplier:.6g}")


def trial_of(job: Job, asked: Asked) -> Trial:
    """Return a job as a trial of a sweep that was asked for this."""
    quality = job.number(asked.metric or "")
    kind, end = _end(job, asked, quality)
    cost = job.number(COST_COLUMNS.get(asked.cost, PAID))
    return Trial(
        job=job,
        setting=setting_of(job),
        number=_told(job, "trial"),
        kind=kind,
        end=end,
        cost=cost if 0 < cost < math.inf else math.nan,
        quality=quality if math.isfinite(quality) else math.nan,
    )


def ranked(trials: Sequence[Trial], asked: Asked) -> tuple[Trial, ...]:
    """Return the trials with those that have a value first, the best of them at the top; the others by their end."""
    sign = -1 if asked.is_rate else 1

    def key(trial: Trial) -> tuple[bool, int, float, float]:
        comparable = trial.kind in ("completed", "worse") and math.isfinite(trial.cost)
        number = trial.number if math.isfinite(trial.number) else math.inf
        return not trial.has_value, KINDS.index(trial.kind), sign * trial.cost if comparable else math.inf, number

    return tuple(sorted(trials, key=key))


def front(trials: Sequence[Trial], asked: Asked) -> tuple[Trial, ...]:
    """Return the trials that no other beats in cost and quality, the cheapest first."""
    sign, better = -1 if asked.is_rate else 1, -1 if asked.higher_is_better else 1
    told = [t for t in trials if t.kind in ("completed", "worse") and math.isfinite(t.cost + t.quality)]
    found: list[Trial] = []
    for trial in sorted(told, key=lambda t: (sign * t.cost, better * t.quality)):
        if not found or better * trial.quality < better * found[-1].quality:
            found.append(trial)
    return tuple(found)


def calibration_of(job: Job, points: pd.DataFrame | None) -> Calibration:
    """Return a calibration; `points` is `histories`'s table of `CALIBRATION_COLUMNS`, their step the batch size."""
    by_size: dict[float, dict[str, float]] = {}
    for row in [] if points is None else points.to_dict("records"):
        by_size.setdefault(float(row["step"]), {})[str(row["key"]).removeprefix("calibration/")] = float(row["value"])
    sizes = tuple(_size(size, told) for size, told in sorted(by_size.items()) if size > 0)
    return Calibration(compiler=setting_of(job).compiler, job=job, sizes=sizes)


def value_at(curve: pd.DataFrame | None, metric: str | None, samples: float) -> float:
    """Return a curve's value after so many samples, between its points on a straight line; NaN outside of them.

    Evaluations at a common count of samples come a few samples apart, since a step is not cut: 5 % more is the same.
    """
    if curve is None or metric is None:
        return math.nan
    told: list[tuple[float, float]] = sorted(
        (float(p), float(v)) for p, v in zip(curve["samples"], curve["value"], strict=True) if math.isfinite(p + v)
    )
    before = [point for point in told if point[0] <= samples]
    after = [point for point in told if samples <= point[0]]
    if not before:
        return after[0][1] if after and after[0][0] <= 1.05 * samples else math.nan
    (x, y), (right, up) = before[-1], (after or before[-1:])[0]
    if right == x:
        return y if x >= samples / 1.05 else math.nan
    return y + (up - y) * (samples - x) / (right - x)


def _size(batch_size: float, told: Mapping[str, float]) -> Size:
    def number(name: str) -> float:
        found = told.get(name, math.nan)
        return found if math.isfinite(found) and found > 0 else math.nan

    step = number("step_seconds")
    return Size(
        batch_size=batch_size,
        fits=told.get("fits", 1.0 if step > 0 else 0.0) > 0,
        step_seconds=step,
        low=number("step_seconds_low"),
        high=number("step_seconds_high"),
        samples_per_second=number("samples_per_second"),
        peak_memory_gib=number("peak_memory_gib"),
    )


def _end(job: Job, asked: Asked, quality: float) -> tuple[Kind, str]:
    told = job.text.get("end") or _end_by_status(job, asked)
    first = told.partition(":")[0]
    kind: Kind = next((kind for kind in KINDS if kind == first), "running" if job.unfinished else "failed")
    if kind == "completed" and asked.bound is not None and not _is_as_good(quality, asked.bound, asked):
        return "worse", f"worse than {asked.metric} {asked.bound:g}"
    return kind, told


def _end_by_status(job: Job, asked: Asked) -> str:
    if job.unfinished:
        return "running"
    if job.succeeded:
        missed = asked.target is not None and not job.number("target_reached") > 0
        return "not reached" if missed else "completed"
    return f"failed: {job.text.get('failure_class') or job.status.lower()}"


def _is_as_good(quality: float, bound: float, asked: Asked) -> bool:
    return quality >= bound if asked.higher_is_better else quality <= bound


def _told(job: Job, *columns: str) -> float:
    """Return the first of these columns that is a number; tags and parameters are text."""
    for column in columns:
        try:
            found = float(job.text.get(column) or job.number(column))
        except ValueError:
            continue
        if math.isfinite(found):
            return found
    return math.nan
