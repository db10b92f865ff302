"""Grids of made-up trainings, whose laws no sampler knows: independent of the recordings and of each other.

Steps to the target at the best learning rate: S = S_min (1 + B_crit / B) (McCandlish et al. 2018, arXiv:1812.06162,
equation 2.11). The best learning rate grows in proportion to the batch size up to the critical one, then stays. A rate
r times the best takes 1 / (r (2 - r)) as many steps if it is below, which follows from a quadratic loss. Above, it
takes 1 / (1 - x^2) as many, where x is its way from the best rate to the one at which training diverges. A step takes a
fixed time plus a time for each sample. Smooth and rough departures disturb the laws of steps and of step times.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.recorded.grid_table import Grid, GridRow, GridSpec, build_grid
from sweeps.cost_model.costs import Measurement
from sweeps.space.grid import Point, space

Range = tuple[float, float]

SEEDS = 5
"""Jobs of each point."""
EVALUATIONS = 25
"""Evaluations of a whole training."""
START_LOSS, END_LOSS, TARGET = 1.6, 0.2, 0.45
TIME_ERROR = 0.04
"""Standard deviation of the logarithm of a job's time."""
EVALUATION_ERROR = 0.004
"""Standard deviation of an evaluation's loss."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Ranges of the constants of its surfaces. Octaves and exponents are drawn uniformly, the others on a log scale."""

    critical_batch: Range = (16, 512)
    """B_crit in samples."""
    fixed_share: Range = (0.1, 0.9)
    """Share of the fixed time in a step of batch size 32."""
    rate_octaves: Range = (-1.0, 2.0)
    """Octaves from the experiment's learning rate to the best one, at the critical batch size."""
    divergence: Range = (2.0, 8.0)
    """Rate at which training diverges, over the best one."""
    scaling: Range = (0.5, 1.0)
    """Exponent of the batch size in the experiment's rule for the learning rate: 0.5 and 1 for sqrt and linear."""
    seed_error: Range = (0.06, 0.10)
    """Standard deviation of the logarithm of the samples to the target."""
    smooth: Range = (0.05, 0.15)
    """Standard deviation of a smooth departure of the logarithm of the samples."""
    rough: Range = (0.01, 0.04)
    """Standard deviation of an independent departure at each point."""
    bend: Range = (0.01, 0.08)
    """Standard deviation of the logarithm of a step time around its line, for each batch size."""
    job_share: Range = (0.05, 0.4)
    """Seconds of a job outside its steps, over the seconds of the steps of the best point."""
    largest_fitting: int = 256
    """Largest batch size that fits in memory."""


FAMILIES: Mapping[str, Family] = {
    "small critical batch": Family(critical_batch=(8, 32)),
    "large critical batch": Family(critical_batch=(256, 2048), fixed_share=(0.5, 0.9)),
    "time by sample": Family(fixed_share=(0.02, 0.1)),
    "narrow rates": Family(divergence=(1.3, 2.0), rate_octaves=(-1.5, 2.0)),
    "little memory": Family(largest_fitting=64, fixed_share=(0.5, 0.95)),
    "off the laws": Family(smooth=(0.3, 0.4), rough=(0.05, 0.1), bend=(0.1, 0.2)),
}


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Constants of one surface."""

    critical_batch: float
    fixed_share: float
    rate_octaves: float
    divergence: float
    scaling: float
    least_samples: float = 2000.0
    """S_min times B_crit: samples to the target at the smallest batch sizes."""
    step_seconds: float = 0.2
    """Seconds of a step of batch size 32."""

    def rate(self, point: Point) -> float:
        """Return a point's learning rate over the best one of its batch size."""
        best: float = min(point.batch_size / self.critical_batch, 1.0) * 2.0**self.rate_octaves
        scaled: float = (point.batch_size / self.critical_batch) ** self.scaling
        return point.multiplier * scaled / best

    def samples(self, point: Point) -> float:
        """Return the samples to the target; infinite if the training diverges."""
        rate = self.rate(point)
        if rate >= self.divergence:
            return math.inf
        slower = 1 / (rate * (2 - rate)) if rate < 1 else 1 / (1 - ((rate - 1) / (self.divergence - 1)) ** 2)
        return self.least_samples * (1 + point.batch_size / self.critical_batch) * slower

    def seconds_per_step(self, batch_size: int) -> float:
        """Return the seconds of a step."""
        return self.step_seconds * (self.fixed_share + (1 - self.fixed_share) * batch_size / 32)


def surface(family: Family, number: int) -> Grid:
    """Return surface `number` of a family: 6 batch sizes and 5 multipliers, with `SEEDS` jobs at each point."""
    random = np.random.default_rng([zlib.crc32(repr(family).encode()), number])
    places = space("8..256", "0.25..4", "powers_of_two", 1).points
    laws = Laws(
        critical_batch=_log_uniform(family.critical_batch, random),
        fixed_share=_log_uniform(family.fixed_share, random),
        rate_octaves=random.uniform(*family.rate_octaves),
        divergence=_log_uniform(family.divergence, random),
        scaling=random.uniform(*family.scaling),
    )
    return _grid(family, laws, places, random)


def _grid(family: Family, laws: Laws, places: tuple[Point, ...], random: np.random.Generator) -> Grid:
    samples = {point: laws.samples(point) * departure for point, departure in _departures(family, places, random)}
    bend = _log_uniform(family.bend, random)
    sizes = sorted({point.batch_size for point in places})
    steps = {size: laws.seconds_per_step(size) * math.exp(random.normal(0, bend)) for size in sizes}
    fitting = [point for point in places if point.batch_size <= family.largest_fitting]
    best_seconds = min(samples[point] / point.batch_size * steps[point.batch_size] for point in fitting)
    whole = round(3 * min(samples[point] for point in fitting))
    job_seconds = best_seconds * _log_uniform(family.job_share, random)
    spec = GridSpec(
        metric="eval_loss",
        higher_is_better=False,
        target=TARGET,
        samples=whole,
        base_batch_size=32,
        fixed_seconds=job_seconds,
        evaluation_seconds=best_seconds / 100,
        eval_samples=whole / EVALUATIONS,
        calibration_seconds={"none": job_seconds + 3 * sum(steps[size] * 3 for size in sizes)},
    )
    seed_error = _log_uniform(family.seed_error, random)
    rows = [
        row
        for point in places
        for seed in range(SEEDS)
        for row in _job(
            family, spec, point, seed, samples[point] * math.exp(random.normal(0, seed_error)), steps, random
        )
    ]
    return build_grid(spec, rows, [_measured(family, size, steps[size], random) for size in sizes], "none")


def _job(
    family: Family,
    spec: GridSpec,
    point: Point,
    seed: int,
    needed: float,
    steps: Mapping[int, float],
    random: np.random.Generator,
) -> list[GridRow]:
    row = GridRow(
        compiler="none", batch_size=point.batch_size, multiplier=point.multiplier, seed=seed, samples=0,
        value=math.nan, billable_seconds=spec.fixed_seconds / 2, ended=True, reached=False,
    )  # fmt: skip
    if point.batch_size > family.largest_fitting:
        return [row]
    pace = math.exp(random.normal(0, TIME_ERROR))
    every = max(1, round(spec.eval_samples / point.batch_size)) * point.batch_size
    seconds = 0.7 * spec.fixed_seconds * pace
    rows: list[GridRow] = []
    samples = 0
    while samples < spec.samples:
        new = min(every, spec.samples - samples)
        samples += new
        seconds += (math.ceil(new / point.batch_size) * steps[point.batch_size] + spec.evaluation_seconds) * pace
        value = _loss(samples / needed if math.isfinite(needed) else -samples / spec.samples)
        value += random.normal(0, EVALUATION_ERROR)
        reached = value <= TARGET
        rows.append(replace(row, samples=samples, value=value, billable_seconds=seconds, ended=False, reached=reached))
        if reached:
            break
    return [*rows, replace(rows[-1], billable_seconds=seconds + 0.3 * spec.fixed_seconds * pace, ended=True)]


def _loss(progress: float) -> float:
    """Return the loss at a share of the samples to the target. A negative share has diverged."""
    if progress < 0:
        return START_LOSS * (1 + min(-2 * progress, 1))
    power = math.log((START_LOSS - END_LOSS) / (TARGET - END_LOSS)) / math.log(21)
    remaining: float = (1 + 20 * progress) ** -power
    return END_LOSS + (START_LOSS - END_LOSS) * remaining


def _measured(family: Family, size: int, seconds: float, random: np.random.Generator) -> Measurement:
    if size > family.largest_fitting:
        return Measurement(batch_size=size, fits=False)
    mean = seconds * math.exp(random.normal(0, 0.02))
    return Measurement(
        batch_size=size, fits=True, step_seconds=mean, low=0.96 * mean, high=1.04 * mean, samples_per_second=size / mean
    )


def _departures(family: Family, places: tuple[Point, ...], random: np.random.Generator) -> list[tuple[Point, float]]:
    """Return each point with a factor on its samples."""
    at = np.array([[math.log2(point.batch_size), math.log2(point.multiplier)] for point in places])
    distance = np.sum((at[:, None] - at[None, :]) ** 2, axis=-1)
    correlation = np.exp(-0.5 * distance / 1.5**2) + 1e-6 * np.eye(len(places))
    smooth = _log_uniform(family.smooth, random) * np.linalg.cholesky(correlation) @ random.normal(size=len(places))
    rough = _log_uniform(family.rough, random) * random.normal(size=len(places))
    return list(zip(places, np.exp(smooth + rough).tolist(), strict=True))


def _log_uniform(limits: Range, random: np.random.Generator) -> float:
    return math.exp(random.uniform(math.log(limits[0]), math.log(limits[1])))
