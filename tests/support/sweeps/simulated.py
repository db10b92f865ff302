"""Grids of simulated trainings: power-law curves whose pace depends on batch size and learning rate.

There are several shapes, so that no strategy is fitted to one. Most share the law of the noise scale with the
surrogate, which does not know its constants. Edges of stability, schedules, plateaus, noise between seeds and
evaluations, and random fields are not part of the surrogate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.recorded.grid_table import Grid, GridRow, GridSpec, build_grid
from sweeps.cost_model.costs import Measurement
from sweeps.space.grid import Point, space


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Properties of simulated trainings."""

    noise_scale: float = 64.0
    """Critical batch size in samples."""
    step_fixed: float = 0.1
    """Fixed seconds of a step."""
    step_per_sample: float = 0.005
    """Seconds of a step per sample."""
    step_bend: float = 0.0
    """Relative amplitude of step times around their line."""
    fixed_seconds: float = 20.0
    """Seconds for start, load, compilation and upload."""
    evaluation_seconds: float = 2.0
    best_rate: float = 0.0
    """Octaves of the best multiplier at batch 8."""
    drift: float = 0.0
    """Octaves of the best multiplier per octave of the batch size."""
    sharpness: float = 1.0
    """Exponent of the extra samples at a rate below the best one."""
    edge: float = 2.0
    """Octaves above the best rate from which the training diverges."""
    rate_noise: float = 0.0
    """Extra loss at the best rate until the schedule has ended, as a share of the remaining distance."""
    seed_error: float = 0.03
    """Standard deviation of the logarithm of the pace between seeds."""
    evaluation_error: float = 0.002
    """Standard deviation of an evaluation."""
    field: float = 0.0
    """Standard deviation of a smooth random departure."""
    most_memory: int = 10_000
    """Largest batch size that fits."""
    power: float = 0.5
    """Exponent of the curve."""
    is_score: bool = False
    """True if the metric is an accuracy."""
    best_samples: int = 4000
    """Samples to the target at the best rate and the smallest batch size."""
    whole: float = 4.0
    """Samples of the whole training over `best_samples`."""
    eval_samples: int = 256
    number: int = 0
    """Seed of the random numbers."""


SHAPES: dict[str, Shape] = {
    "accelerator": Shape(step_fixed=0.12, step_per_sample=0.002, noise_scale=40),
    "processor": Shape(step_fixed=0.04, step_per_sample=0.02, noise_scale=60, fixed_seconds=8, best_rate=1),
    "memory": Shape(step_fixed=0.3, step_per_sample=0.001, noise_scale=1000, most_memory=128, best_rate=-0.5),
    "drifting": Shape(drift=-0.5, best_rate=1.5, edge=1.2, step_bend=0.08),
    "scheduled": Shape(rate_noise=0.5, best_rate=0.5, power=0.35, drift=-0.3),
    "indifferent": Shape(sharpness=0.3, seed_error=0.08, noise_scale=100, edge=4),
    "lawless": Shape(field=0.35, best_rate=-1, drift=0.25, step_bend=0.1),
    "accuracy": Shape(is_score=True, drift=-0.5, best_rate=1, evaluation_error=0.006, edge=1.5),
    "off by far": Shape(best_rate=2.2, edge=1.5, sharpness=2, noise_scale=30),
}


def simulated(shape: Shape, *, seeds: int = 3, number: int = 0, bound: bool = False) -> Grid:
    """Return a grid of 6 batch sizes and 5 multipliers; `number` selects another one of the same shape."""
    random = np.random.default_rng(1000 * shape.number + number)
    places = space("8..256", "0.25..4", "powers_of_two", 1)
    field = dict(zip(places.points, _field(places.points, shape.field, random), strict=True))
    whole = round(shape.best_samples * shape.whole)
    goal = _loss(shape, 1.0, 1.0)
    spec = GridSpec(
        metric="eval_accuracy" if shape.is_score else "eval_loss",
        higher_is_better=shape.is_score,
        target=None if bound else _metric(shape, goal),
        bound=_metric(shape, _loss(shape, 1.0, shape.whole / 2)) if bound else None,
        samples=whole,
        base_batch_size=16,
        fixed_seconds=0.7 * shape.fixed_seconds,
        evaluation_seconds=shape.evaluation_seconds,
        eval_samples=shape.eval_samples,
        calibration_seconds={"none": shape.fixed_seconds + 6 * 2.5},
    )
    rows = [
        row
        for point in places.points
        for seed in range(seeds)
        for row in _job(shape, spec, point, seed, field[point], random)
    ]
    calibration = [_measured(shape, size, random) for size in places.batch_sizes]
    return build_grid(spec, rows, calibration, "none")


def _pace(shape: Shape, point: Point) -> tuple[float, float]:
    """Return the samples that a point needs over those of the best point, and its octaves above the best rate."""
    size = math.log2(point.batch_size / 8)
    off = math.log2(point.multiplier) - shape.best_rate - shape.drift * size
    wrong = (2.0**off + 2.0**-off) / 2
    noise = (1 + point.batch_size / shape.noise_scale) / (1 + 8 / shape.noise_scale)
    return noise * wrong**shape.sharpness, off


def _loss(shape: Shape, pace: float, share: float) -> float:
    """Return the loss after `share` of the best samples at a pace. It starts at 1.6 and stays above 0.2."""
    return float(0.2 + 1.4 * (1 + 20 * share / pace) ** -shape.power)


def _metric(shape: Shape, loss: float) -> float:
    return 1.05 - loss / 1.6 if shape.is_score else loss


def _job(
    shape: Shape, spec: GridSpec, point: Point, seed: int, departure: float, random: np.random.Generator
) -> list[GridRow]:
    row = GridRow(
        compiler="none", batch_size=point.batch_size, multiplier=point.multiplier, seed=seed, samples=0,
        value=math.nan, billable_seconds=shape.fixed_seconds, ended=True, reached=False,
    )  # fmt: skip
    if point.batch_size > shape.most_memory:
        return [row]
    pace, off = _pace(shape, point)
    pace *= math.exp(departure + random.normal(0, shape.seed_error))
    every = max(1, round(shape.eval_samples / point.batch_size)) * point.batch_size
    step = _step_seconds(shape, point.batch_size)
    seconds = 0.7 * shape.fixed_seconds
    rows: list[GridRow] = []
    for samples in range(every, spec.samples + every, every):
        samples = min(samples, spec.samples)
        seconds += every / point.batch_size * step + shape.evaluation_seconds
        value = _value(shape, spec, pace, off, samples, random)
        target = spec.target
        reached = target is not None and (value >= target if shape.is_score else value <= target)
        rows.append(replace(row, samples=samples, value=value, billable_seconds=seconds, ended=False, reached=reached))
        if reached:
            break
    return [*rows, replace(rows[-1], billable_seconds=seconds + 0.3 * shape.fixed_seconds, ended=True)]


def _value(shape: Shape, spec: GridSpec, pace: float, off: float, samples: int, random: np.random.Generator) -> float:
    if off > shape.edge:
        return _metric(shape, 1.6 + 0.3 * min(samples / 2000, 2.0) + random.normal(0, 0.02))
    loss = _loss(shape, pace, samples / shape.best_samples)
    # A high rate leaves noise that goes as the schedule comes down: such a curve is behind until late.
    loss += shape.rate_noise * 0.15 * 2.0**off * (1 - samples / spec.samples) * (loss - 0.2)
    return _metric(shape, loss + random.normal(0, shape.evaluation_error))


def _step_seconds(shape: Shape, size: int) -> float:
    wave = 1 + shape.step_bend * math.sin(2.5 * math.log2(size))
    return (shape.step_fixed + shape.step_per_sample * size) * wave


def _measured(shape: Shape, size: int, random: np.random.Generator) -> Measurement:
    if size > shape.most_memory:
        return Measurement(batch_size=size, fits=False)
    seconds = _step_seconds(shape, size) * math.exp(random.normal(0, 0.015))
    return Measurement(
        batch_size=size, fits=True, step_seconds=seconds, low=0.97 * seconds, high=1.03 * seconds,
        samples_per_second=size / seconds, peak_memory_gib=1 + size / 32,
    )  # fmt: skip


def _field(points: tuple[Point, ...], deviation: float, random: np.random.Generator) -> list[float]:
    """Return a smooth random departure at each point."""
    places = np.array([[math.log2(point.batch_size), math.log2(point.multiplier)] for point in points])
    distance = np.sum((places[:, None] - places[None, :]) ** 2, axis=-1)
    covariance = np.exp(-0.5 * distance / 1.5**2) + 1e-6 * np.eye(len(points))
    return [float(each) for each in deviation * np.linalg.cholesky(covariance) @ random.normal(size=len(points))]
