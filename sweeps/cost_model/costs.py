"""What a training costs at each batch size, as its calibration and the trials that have ended tell. Pure."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from judging.step_time import StepTime

LEAST_RELATIVE_ERROR = 0.01
"""No measured step time is trusted further than this: machines drift by as much within minutes."""

BEND = 0.1
"""How far step times truly lie off their line, as a share: kernels suit some sizes better than others."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the calibration found at one batch size."""

    batch_size: int
    """Samples of each device."""
    fits: bool
    """False where it ran out of memory."""
    step_seconds: float = math.nan
    """Mean of a step of the training."""
    low: float = math.nan
    """Lower end of its 95 % interval, seconds."""
    high: float = math.nan
    """Upper end, seconds."""
    samples_per_second: float = math.nan
    """Over all devices."""
    peak_memory_gib: float = math.nan
    """Of one device."""


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Billable instance seconds of a training, by batch size and samples."""

    line: StepTime
    measured: tuple[Measured, ...]
    """Sizes that fit, ascending."""
    fixed_seconds: float = 0.0
    """Billable instance seconds of a job beside its steps: start, download, load, compile, upload."""
    evaluation_seconds_per_sample: float = 0.0
    """Seconds of evaluation for each sample trained: one evaluation's seconds over the samples between two."""
    largest_batch_size: float = math.inf
    """Largest that fits; above it nothing is known to."""
    instance_count: int = 1
    """Machines that are paid."""
    pace: float = 1.0
    """Seconds of a sample in the trials, over what the calibration says."""
    calibration_seconds: float = 0.0
    """Billable instance seconds of the calibration itself."""

    def step_seconds(self, batch_size: int) -> float:
        """Return the seconds of a step: as measured where measured well, between two sizes the line, moved to both."""
        return self.line.step_seconds(batch_size) * self._correction(batch_size)

    def seconds_per_sample(self, batch_size: int) -> float:
        """Return the billable instance seconds of one training sample, its share of the evaluations included."""
        samples = batch_size * self._devices
        trained = self.step_seconds(batch_size) / samples + self.evaluation_seconds_per_sample
        return self.pace * trained * self.instance_count

    def samples_per_second(self, batch_size: int) -> float:
        """Return the steady rate of the training over all devices, evaluations left out."""
        return batch_size * self._devices / (self.pace * self.step_seconds(batch_size))

    def billable_instance_seconds(self, batch_size: int, samples: float) -> float:
        """Return the whole bill of a job that trains `samples`."""
        return self.fixed_seconds + samples * self.seconds_per_sample(batch_size)

    def fits(self, batch_size: int) -> bool:
        """Tell whether the batch is no larger than the largest that fits."""
        return batch_size <= self.largest_batch_size

    @property
    def _devices(self) -> float:
        """Samples of a step over those of a device, as the calibration's rates tell."""
        found = [row.samples_per_second * row.step_seconds / row.batch_size for row in self.measured]
        known = [each for each in found if math.isfinite(each)]
        return float(max(round(statistics.median(known)), 1)) if known else 1.0

    def _correction(self, batch_size: int) -> float:
        """Return measured over line, between two measured sizes by the logarithm of the size."""
        sizes = [row.batch_size for row in self.measured]
        ratios = [_off_line(row, self.line) for row in self.measured]
        at = bisect_left(sizes, batch_size)
        if at == len(sizes) or at == 0:
            return ratios[min(at, len(ratios) - 1)]
        share = math.log(batch_size / sizes[at - 1]) / math.log(sizes[at] / sizes[at - 1])
        return ratios[at - 1] + share * (ratios[at] - ratios[at - 1])


def cost_model(
    rows: Iterable[Measured],
    *,
    fixed_seconds: float = 0.0,
    evaluation_seconds: float = 0.0,
    samples_between_evaluations: float = math.inf,
    instance_count: int = 1,
    calibration_seconds: float = 0.0,
) -> CostModel:
    """Return the model of a calibration's rows. Raises ValueError with one sentence when no batch size fits."""
    found = sorted(rows, key=lambda row: row.batch_size)
    fitting = [row for row in found if row.fits and row.step_seconds > 0]
    if not fitting:
        sizes = ", ".join(str(row.batch_size) for row in found)
        raise ValueError(f"batch_sizes: none of those calibrated ({sizes or 'none'}) fits the memory")
    return CostModel(
        line=fit_line(fitting),
        measured=tuple(fitting),
        fixed_seconds=fixed_seconds,
        evaluation_seconds_per_sample=evaluation_seconds / samples_between_evaluations,
        largest_batch_size=fitting[-1].batch_size if any(not row.fits for row in found) else math.inf,
        instance_count=instance_count,
        calibration_seconds=calibration_seconds,
    )


def fit_line(rows: Sequence[Measured]) -> StepTime:
    """Return the line of the least relative squares through the step times, neither of its parts below 0.

    Each size weighs by its interval, and by no less than `LEAST_RELATIVE_ERROR` of its step.
    """
    fixed, per_sample = _weighted(rows)
    distances = [
        abs(_at(_weighted([*rows[:at], *rows[at + 1 :]]), row.batch_size) / row.step_seconds - 1)
        for at, row in enumerate(rows)
        if len(rows) >= 3
    ]
    error = statistics.fmean(distances) if distances else math.nan
    return StepTime(step_seconds_fixed=fixed, step_seconds_per_sample=per_sample, relative_error=error)


def _weighted(rows: Sequence[Measured]) -> tuple[float, float]:
    if len(rows) == 1:
        # One size says nothing about the parts: a sample's cost is then the same at every size.
        return 0.0, rows[0].step_seconds / rows[0].batch_size
    errors = np.array([_standard_error(row) for row in rows])
    sizes = np.array([float(row.batch_size) for row in rows])
    # In units of the largest size, so that both unknowns are of like magnitude.
    design = np.column_stack([np.ones(len(rows)), sizes / sizes.max()]) / errors[:, None]
    (fixed, slope), _ = nnls(design, np.array([row.step_seconds for row in rows]) / errors)
    return float(fixed), float(slope / sizes.max())


def _at(line: tuple[float, float], batch_size: int) -> float:
    return line[0] + line[1] * batch_size


def _off_line(row: Measured, line: StepTime) -> float:
    """Return how far a size is off the line: as measured, or the less the wider its interval is against `BEND`."""
    error = _standard_error(row) / row.step_seconds
    return float((row.step_seconds / line.step_seconds(row.batch_size)) ** (BEND**2 / (BEND**2 + error**2)))


def _standard_error(row: Measured) -> float:
    """Return the error of a mean step, from its 95 % interval."""
    least = LEAST_RELATIVE_ERROR * row.step_seconds
    half = (row.high - row.low) / 2
    return max(half / 1.96, least) if math.isfinite(half) else least


def paced(costs: CostModel, slopes: Sequence[tuple[int, float]]) -> CostModel:
    """Return the costs at the trials' own pace. `slopes` holds pairs of batch size and billable instance seconds per
    sample."""
    ratios = [seconds / costs.seconds_per_sample(size) for size, seconds in slopes if seconds > 0]
    return replace(costs, pace=costs.pace * statistics.median(ratios)) if ratios else costs


def with_fixed(costs: CostModel, bills: Sequence[tuple[int, int, float]]) -> CostModel:
    """Return the costs with the fixed part of the trials. `bills` holds tuples of batch size, samples and billable
    instance seconds."""
    left = [bill - samples * costs.seconds_per_sample(size) for size, samples, bill in bills]
    return replace(costs, fixed_seconds=max(statistics.median(left), 0.0)) if left else costs
