"""What training every setting of a sweep's grid would have cost, as far as the sweep's own measurements tell. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from reports.comparison.equal_work import PAID
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Setting, Trial, rounded

_ENDED = ("completed", "worse", "not reached")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The whole grid's cost."""

    settings: int
    """That fit the memory."""
    trained: int
    """Of them, that were trained to their end: what they cost is known."""
    seconds: float
    """Billable instance seconds."""


def grid_of(sweep: Sweep) -> Grid | None:
    """Return the grid's cost: the bills that are known, and for the others the fitted step times.

    A setting that was not trained to its end is taken to see the samples of the trials of its compiler and batch size
    that were (their median), else of all trials; where no target ends the training, all samples. Beside its steps a job
    takes what the trials took beside theirs (median). None where a compiler's step times are not known.
    """
    asked = sweep.asked
    factors = [rounded(multiplier) for multiplier in asked.multipliers]
    settings = [Setting(c, size, m) for c in asked.compilers for size in asked.batch_sizes for m in factors]
    settings = [setting for setting in settings if _fits(sweep, setting)]
    known = {trial.setting: trial.job.number(PAID) for trial in sweep.trials if trial.kind in _ENDED}
    told = {setting: known.get(setting, math.nan) for setting in settings}
    seconds = [cost if cost > 0 else _predicted(sweep, setting) for setting, cost in told.items()]
    if not seconds or not all(map(math.isfinite, seconds)):
        return None
    return Grid(settings=len(settings), trained=sum(cost > 0 for cost in told.values()), seconds=math.fsum(seconds))


def seconds_per_sample(sweep: Sweep, setting: Setting) -> float:
    """Return the steady seconds of a sample by the compiler's model; NaN without one."""
    model = sweep.asked.models.get(setting.compiler)
    if model is None or not setting.batch_size > 0:
        return math.nan
    return model.step_seconds(setting.batch_size) / (setting.batch_size * devices(sweep, setting.compiler))


def devices(sweep: Sweep, compiler: str) -> float:
    """Return how many batches of a device a step takes, as the calibration tells it; 1 without any."""
    sizes = [size for each in sweep.calibrations if each.compiler == compiler for size in each.sizes]
    told = [size.samples_per_second * size.step_seconds / size.batch_size for size in sizes]
    found = [value for value in told if math.isfinite(value)]
    return max(1.0, float(round(median(found)))) if found else 1.0


def _fits(sweep: Sweep, setting: Setting) -> bool:
    calibrated = [c for c in sweep.calibrations if c.compiler == setting.compiler]
    if any(setting.batch_size >= size for c in calibrated for size in c.too_large):
        return False
    failed = [t.setting for t in sweep.trials if t.job.text.get("failure_class") == "OutOfMemory"]
    return not any(f.compiler == setting.compiler and setting.batch_size >= f.batch_size for f in failed)


def _predicted(sweep: Sweep, setting: Setting) -> float:
    ended = [trial for trial in sweep.trials if trial.kind in _ENDED]
    beside = [value for trial in ended if math.isfinite(value := _beside_steps(sweep, trial))]
    alike = [t for t in ended if (t.setting.compiler, t.setting.batch_size) == (setting.compiler, setting.batch_size)]
    samples = [t.job.number("samples") for t in alike or ended if t.job.number("samples") > 0]
    if sweep.asked.target is None or not samples:
        samples = [sweep.asked.samples]
    instances = max(
        [t.job.number(PAID) / t.job.number("cost_billable_seconds") for t in ended if _is_billed(t)] or [1.0]
    )
    steps = median(samples) * seconds_per_sample(sweep, setting) * instances
    return steps + (max(0.0, median(beside)) if beside else 0.0)


def _beside_steps(sweep: Sweep, trial: Trial) -> float:
    """Return the billable instance seconds of a trial that were no steps."""
    job = trial.job
    if not _is_billed(trial):
        return math.nan
    instances = job.number(PAID) / job.number("cost_billable_seconds")
    return job.number(PAID) - instances * job.number("samples") * seconds_per_sample(sweep, trial.setting)


def _is_billed(trial: Trial) -> bool:
    return trial.job.number(PAID) > 0 and trial.job.number("cost_billable_seconds") > 0
