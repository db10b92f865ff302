"""Step time and memory of each batch size, from a calibration. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from training.contract.errors import TrainfareError

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

    measured: tuple[Measurement, ...]
    """Batch sizes that fit, ascending."""
    largest_batch_size: float = math.inf
    """Largest batch size that fits; infinite if every calibrated size fits."""

    def step_seconds(self, batch_size: int) -> float:
        """Return the seconds of a step, interpolated between the nearest measured sizes."""
        sizes, seconds = zip(*((row.batch_size, row.step_seconds) for row in self.measured), strict=True)
        return float(np.interp(batch_size, sizes, seconds))

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
        measured=tuple(fitting),
        largest_batch_size=fitting[-1].batch_size if any(not row.fits for row in by_size) else math.inf,
    )
