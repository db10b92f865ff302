"""Predicted cost of training every setting in a sweep's grid, based on the sweep's measurements. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from reports.comparison.equal_work import BILLABLE
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Setting, Trial, rounded

_ENDED = ("completed", "worse", "not reached")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Cost of the whole grid."""

    settings: int
    """Settings that fit in memory."""
    trained: int
    """Settings that were trained to the end, whose cost is known."""
    seconds: float
    """Billable instance seconds."""


def grid_of(sweep: Sweep) -> Grid | None:
    """Return the cost of the grid: known costs, and predictions for settings that were not trained to the end.

    A prediction is the fitted time per sample times the number of samples, plus the trials' median overhead. With a
    target that ends the training, the number of samples is the median over the trials with the same compiler and batch
    size, or else over all trials. Without a target, it is the number of samples in the whole training. Returns None if
    a compiler's step times are unknown.
    """
    spec = sweep.spec
    factors = [rounded(multiplier) for multiplier in spec.multipliers]
    settings = [Setting(c, size, m) for c in spec.compilers for size in spec.batch_sizes for m in factors]
    settings = [setting for setting in settings if _fits(sweep, setting)]
    known = {trial.setting: trial.job.number(BILLABLE) for trial in sweep.trials if trial.kind in _ENDED}
    costs = {setting: known.get(setting, math.nan) for setting in settings}
    seconds = [cost if cost > 0 else _predicted(sweep, setting) for setting, cost in costs.items()]
    if not seconds or not all(map(math.isfinite, seconds)):
        return None
    return Grid(settings=len(settings), trained=sum(cost > 0 for cost in costs.values()), seconds=math.fsum(seconds))


def seconds_per_sample(sweep: Sweep, setting: Setting) -> float:
    """Return the steady seconds per sample that the compiler's cost model predicts; NaN without a model."""
    model = sweep.spec.models.get(setting.compiler)
    if model is None or not setting.batch_size > 0:
        return math.nan
    return model.step_seconds(setting.batch_size) / (setting.batch_size * devices(sweep, setting.compiler))


def devices(sweep: Sweep, compiler: str) -> float:
    """Return the number of device batches in a step, from the calibration; 1 without a calibration."""
    sizes = [size for each in sweep.calibrations if each.compiler == compiler for size in each.sizes]
    batches = [size.samples_per_second * size.step_seconds / size.batch_size for size in sizes]
    finite = [value for value in batches if math.isfinite(value)]
    return max(1.0, float(round(median(finite)))) if finite else 1.0


def _fits(sweep: Sweep, setting: Setting) -> bool:
    calibrated = [c for c in sweep.calibrations if c.compiler == setting.compiler]
    if any(setting.batch_size >= size for c in calibrated for size in c.too_large):
        return False
    failed = [t.setting for t in sweep.trials if t.job.text.get("failure_class") == "OutOfMemory"]
    return not any(f.compiler == setting.compiler and setting.batch_size >= f.batch_size for f in failed)


def _predicted(sweep: Sweep, setting: Setting) -> float:
    ended = [trial for trial in sweep.trials if trial.kind in _ENDED]
    overheads = [value for trial in ended if math.isfinite(value := _overhead_seconds(sweep, trial))]
    similar = [t for t in ended if (t.setting.compiler, t.setting.batch_size) == (setting.compiler, setting.batch_size)]
    samples = [t.job.number("samples") for t in similar or ended if t.job.number("samples") > 0]
    if sweep.spec.target is None or not samples:
        samples = [sweep.spec.samples]
    instances = max(
        [t.job.number(BILLABLE) / t.job.number("cost_billable_seconds") for t in ended if _is_billed(t)] or [1.0]
    )
    steps = median(samples) * seconds_per_sample(sweep, setting) * instances
    return steps + (max(0.0, median(overheads)) if overheads else 0.0)


def _overhead_seconds(sweep: Sweep, trial: Trial) -> float:
    """Return a trial's billable instance seconds outside its steps."""
    job = trial.job
    if not _is_billed(trial):
        return math.nan
    instances = job.number(BILLABLE) / job.number("cost_billable_seconds")
    return job.number(BILLABLE) - instances * job.number("samples") * seconds_per_sample(sweep, trial.setting)


def _is_billed(trial: Trial) -> bool:
    return trial.job.number(BILLABLE) > 0 and trial.job.number("cost_billable_seconds") > 0
