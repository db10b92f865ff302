"""Step time and memory of each batch size, from a calibration. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from training.contract.errors import TrainfareError

MIN_RELATIVE_ERROR = 0.01
"""Smallest relative error of a measured step time: an instance's speed drifts by this much within minutes."""

BEND = 0.1
"""Expected relative distance of true step times from the line: kernels are more efficient at some batch sizes."""


FIGURES = {
    "calibration/fits": "fits",
    "calibration/step_seconds": "step_seconds",
    "calibration/step_seconds_low": "low",
    "calibration/step_seconds_high": "high",
    "calibration/samples_per_second": "samples_per_second",
    "calibration/peak_memory_gib": "peak_memory_gib",
}
"""Metrics of a calibration, of which MLflow's step is the batch size, and their fields in `Measurement`."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Calibration result of one batch size; unknown numbers are NaN."""

    batch_size: int
    """Samples per device."""
    fits: bool
    """False if the batch size ran out of memory."""
    step_seconds: float = math.nan
    """Mean time of a training step."""
    low: float = math.nan
    """Lower bound of the 95 % interval of `step_seconds`."""
    high: float = math.nan
    """Upper bound of the 95 % interval of `step_seconds`."""
    samples_per_second: float = math.nan
    """Rate of all devices together."""
    peak_memory_gib: float = math.nan


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Step time as a straight line over the batch size: fixed seconds per step plus seconds per sample."""

    step_seconds_fixed: float
    """Seconds of a step that do not depend on the batch size."""
    step_seconds_per_sample: float
    """Additional seconds for each sample of one device."""
    relative_error: float
    """Mean error of predicting each measured size from a line through the other sizes, relative to its step time; NaN
    below three sizes."""

    def step_seconds(self, batch_size: float) -> float:
        """Return the seconds of a step with this batch size."""
        return self.step_seconds_fixed + self.step_seconds_per_sample * batch_size


def measurements(points: Iterable[tuple[int, str, float]]) -> tuple[Measurement, ...]:
    """Return the result of each batch size, ascending, from points given as (batch size, metric, value)."""
    by_size: dict[int, dict[str, float]] = {}
    for size, metric, value in points:
        is_known = math.isfinite(value) and value > 0
        by_size.setdefault(int(size), {})[FIGURES[metric]] = value if is_known else math.nan
    return tuple(
        Measurement(batch_size=size, fits=figures.pop("fits", figures.get("step_seconds", math.nan)) > 0, **figures)
        for size, figures in sorted(by_size.items())
        if size > 0
    )


def largest_useful(rows: Iterable[Measurement], memory_gib: float | None) -> int:
    """Return the largest batch size within 5 % of the best rate, of those that leave a tenth of the memory free.

    The mean tokens of a sample are equal at all sizes, so rates in samples compare as in tokens. Without a known
    memory, no margin is kept. Raises TrainfareError if no size is left.
    """
    most = math.inf if memory_gib is None else 0.9 * memory_gib
    fitting = [row for row in rows if row.fits and not row.peak_memory_gib > most]
    if not fitting:
        raise TrainfareError("No size of sweep.batch_sizes leaves a tenth of the memory free: set it to a lower range.")
    best = max(row.samples_per_second for row in fitting)
    return max(row.batch_size for row in fitting if row.samples_per_second >= 0.95 * best)


def device_count(rows: Iterable[Measurement]) -> int:
    """Return the number of devices: samples per step, divided by the batch size of one device; 1 if unknown."""
    counts = [row.samples_per_second * row.step_seconds / row.batch_size for row in rows]
    finite = [count for count in counts if math.isfinite(count)]
    return max(round(statistics.median(finite)), 1) if finite else 1


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Step times by batch size, and the largest size that fits."""

    line: StepTime
    measured: tuple[Measurement, ...]
    """Batch sizes that fit, ascending."""
    largest_batch_size: float = math.inf
    """Largest batch size that fits; infinite if every calibrated size fits."""

    def step_seconds(self, batch_size: int) -> float:
        """Return the seconds of a step: the time of the line, corrected by the ratio of measured to fitted step time.

        The ratio is interpolated between the nearest measured sizes on a logarithmic scale.
        """
        sizes = [math.log(row.batch_size) for row in self.measured]
        ratios = [_measured_over_fitted(row, self.line) for row in self.measured]
        return self.line.step_seconds(batch_size) * float(np.interp(math.log(batch_size), sizes, ratios))

    def samples_per_second(self, batch_size: int) -> float:
        """Return the steady training rate of all devices, without evaluations."""
        return batch_size * device_count(self.measured) / self.step_seconds(batch_size)


def cost_model(rows: Iterable[Measurement]) -> CostModel:
    """Return the cost model for a calibration's rows. Raises ValueError with one sentence if no batch size fits."""
    by_size = sorted(rows, key=lambda row: row.batch_size)
    fitting = [row for row in by_size if row.fits and row.step_seconds > 0]
    if not fitting:
        sizes = ", ".join(str(row.batch_size) for row in by_size)
        raise ValueError(
            f"batch_sizes: none of the batch sizes that calibration tried fits in memory (tried: {sizes or 'none'})"
        )
    return CostModel(
        line=fit_line(fitting),
        measured=tuple(fitting),
        largest_batch_size=fitting[-1].batch_size if any(not row.fits for row in by_size) else math.inf,
    )


def fit_line(rows: Sequence[Measurement]) -> StepTime:
    """Fit a line to the step times by least relative squares, with both coefficients at least 0.

    Each size is weighted by its interval, with a relative error of at least `MIN_RELATIVE_ERROR`.
    """
    fixed, per_sample = _weighted(rows)
    distances = []
    for at, row in enumerate(rows if len(rows) >= 3 else ()):
        fixed_by_others, slope_by_others = _weighted([*rows[:at], *rows[at + 1 :]])
        distances.append(abs((fixed_by_others + slope_by_others * row.batch_size) / row.step_seconds - 1))
    error = statistics.fmean(distances) if distances else math.nan
    return StepTime(step_seconds_fixed=fixed, step_seconds_per_sample=per_sample, relative_error=error)


def _weighted(rows: Sequence[Measurement]) -> tuple[float, float]:
    if len(rows) == 1:
        # One size cannot separate the two coefficients, so the seconds per sample are taken as equal for all sizes.
        return 0.0, rows[0].step_seconds / rows[0].batch_size
    errors = np.array([_standard_error(row) for row in rows])
    # Imported here because it takes 21 MiB, and a comparison's report imports this module, too.
    from scipy.optimize import nnls

    sizes = np.array([float(row.batch_size) for row in rows])
    # Sizes in units of the largest one, so that both coefficients have a similar magnitude.
    design = np.column_stack([np.ones(len(rows)), sizes / sizes.max()]) / errors[:, None]
    (fixed, slope), _ = nnls(design, np.array([row.step_seconds for row in rows]) / errors)
    return float(fixed), float(slope / sizes.max())


def _measured_over_fitted(row: Measurement, line: StepTime) -> float:
    """Return the ratio of measured to fitted step time, closer to 1 if the interval is wide compared with `BEND`."""
    error = _standard_error(row) / row.step_seconds
    return float((row.step_seconds / line.step_seconds(row.batch_size)) ** (BEND**2 / (BEND**2 + error**2)))


def _standard_error(row: Measurement) -> float:
    """Return the standard error of a mean step time, from its 95 % interval."""
    least = MIN_RELATIVE_ERROR * row.step_seconds
    half = (row.high - row.low) / 2
    return max(half / 1.96, least) if math.isfinite(half) else least
