"""Made-up costs of two compilers at every point of a search space, whose laws no sampler knows.

Samples to the target at the best learning rate: S = S_min (B_crit + B) (McCandlish et al. 2018, arXiv:1812.06162,
equation 2.11). The best rate grows in proportion to the batch size up to the critical one, then stays. A rate r times
the best takes 1 / (r (2 - r)) as many samples if it is below, which follows from a quadratic loss. Above, it takes
1 / (1 - x^2) as many, where x is its way from the best rate to the one at which training diverges. A step takes a fixed
time plus a time for each sample. Departures disturb both laws: smooth ones, and others at each point or batch size.

A compiler changes the times alone: the same seed needs the same samples with both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng

from benchmarks.recorded.replay import Grid, Run
from sweeps.search_space import Point, space
from sweeps.trials import CurvePoint, Objective, Quality, Search, TrialOutcome

Range = tuple[float, float]
COMPILERS = ("none", "inductor")
START = Point(32)
TRIALS = 2
"""Jobs of each point from which a sweep chooses: its trial and its second training."""
REPEATS = 9
EVALUATIONS = 25
"""Evaluations of a training that does not reach the target."""
START_LOSS, END_LOSS, TARGET = 1.6, 0.2, 0.45
TIME_ERROR = 0.037
"""Standard deviation of the logarithm of a job's time, as recorded."""
EVALUATION_ERROR = 0.004
TRUE_JOBS = 2_000
"""Jobs whose mean is the true cost of a point."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Ranges of the departures, as standard deviations of logarithms. All constants are drawn on a log scale."""

    smooth: Range = (0.05, 0.15)
    rough: Range = (0.01, 0.04)
    bend: Range = (0.01, 0.08)
    """Departure of the step time of a compiler at a batch size."""


FAMILIES = {"by the laws": Family(), "off the laws": Family(smooth=(0.3, 0.4), rough=(0.05, 0.1), bend=(0.1, 0.2))}


@dataclass(frozen=True, kw_only=True)
class Surface:
    """Costs of both compilers."""

    grids: Mapping[str, Grid]
    """`TRIALS` jobs of each point, by compiler."""
    repeats: Mapping[tuple[str, Point], tuple[float | None, ...]]
    """Cost of each of the `REPEATS` further jobs of a setting; None if it misses the target."""
    true_costs: Mapping[str, float]
    """True cost of each compiler's cheapest point."""


def surface(family: Family, seed: int) -> Surface:
    random = default_rng(seed)
    points = space("8..256", "0.25..4", "powers_of_two").points
    samples = _samples(family, points, random)
    fixed_share, bend = _between((0.1, 0.9), random), _between(family.bend, random)
    faster = {"none": (1.0, 1.0), "inductor": (_between((0.6, 1.0), random), _between((0.75, 1.05), random))}
    sizes = sorted({point.batch_size for point in points})
    steps = {
        (compiler, size): 0.2
        * (fixed_share * fixed + (1 - fixed_share) * each * size / 32)
        * math.exp(random.normal(0, bend))
        for compiler, (fixed, each) in faster.items()
        for size in sizes
    }
    least = min(samples[at] / at.batch_size * steps["none", at.batch_size] for at in points)
    start = least * _between((0.05, 0.4), random)
    starts = {"none": start, "inductor": start + least * _between((0.01, 0.3), random)}
    whole = 3 * min(samples.values())
    seed_error = _between((0.06, 0.10), random)
    needed = {at: samples[at] * np.exp(random.normal(0, seed_error, TRUE_JOBS)) for at in points}
    grids, repeats, true_costs = {}, {}, {}
    for compiler in COMPILERS:
        runs = {}
        costs = []
        for at in points:
            every = max(1, round(whole / EVALUATIONS / at.batch_size)) * at.batch_size
            seconds = every / at.batch_size * steps[compiler, at.batch_size] + least / 100
            paces = np.exp(random.normal(0, TIME_ERROR, TRUE_JOBS))
            most = math.ceil(whole / every)
            ended = np.ceil(needed[at] / every)
            bills = (starts[compiler] + np.minimum(ended, most) * seconds) * paces
            reached = ended <= most
            runs[at] = [
                _run(at, every, needed[at][job], seconds * paces[job], starts[compiler] * paces[job], most, random)
                for job in range(TRIALS)
            ]
            repeats[compiler, at] = tuple(
                float(bills[job]) if reached[job] else None for job in range(TRIALS, TRIALS + REPEATS)
            )
            costs.append(bills.sum() / reached.sum() if reached.any() else math.inf)
        objective = Objective(
            cost="billable_seconds", quality=Quality(metric="eval_loss", higher_is_better=False), target=TARGET
        )
        searched = space("8..256", "0.25..4", "powers_of_two")
        search = Search(space=searched, objective=objective, samples=round(whole), base=START)
        grids[compiler] = Grid(search=search, runs=runs)
        true_costs[compiler] = float(min(costs))
    return Surface(grids=grids, repeats=repeats, true_costs=true_costs)


def _samples(family: Family, points: tuple[Point, ...], random: Generator) -> dict[Point, float]:
    """Return the samples to the target at each point; infinite where the training diverges."""
    critical, diverges = _between((16, 512), random), _between((2.0, 8.0), random)
    octaves, scaling = random.uniform(-1.0, 2.0), random.uniform(0.5, 1.0)
    at = np.log2([[point.batch_size, point.multiplier] for point in points])
    distance = np.sum((at[:, None] - at[None, :]) ** 2, axis=-1)
    correlation = np.exp(-0.5 * distance / 1.5**2) + 1e-6 * np.eye(len(points))
    smooth = _between(family.smooth, random) * np.linalg.cholesky(correlation) @ random.normal(size=len(points))
    rough = _between(family.rough, random) * random.normal(size=len(points))
    needed = {}
    for point, departure in zip(points, np.exp(smooth + rough).tolist(), strict=True):
        best = min(point.batch_size / critical, 1.0) * 2.0**octaves
        rate = point.multiplier * (point.batch_size / critical) ** scaling / best
        if rate >= diverges:
            needed[point] = math.inf
            continue
        slower = 1 / (rate * (2 - rate)) if rate < 1 else 1 / (1 - ((rate - 1) / (diverges - 1)) ** 2)
        needed[point] = 2000 * (1 + point.batch_size / critical) * slower * departure
    return needed


def _run(at: Point, every: int, needed: float, seconds: float, start: float, most: int, random: Generator) -> Run:
    """Return a job with `most` evaluations, or fewer if it reaches the target before."""
    curve = []
    for number in range(1, min(most, math.ceil(min(needed / every, most))) + 1):
        progress = number * every / needed
        value = _loss(progress) + random.normal(0, EVALUATION_ERROR)
        value = min(value, TARGET) if progress >= 1 else max(value, TARGET + 1e-6)
        # 70 % of what a job costs outside its steps comes before them.
        billed = 0.7 * start + number * seconds
        curve.append(CurvePoint(samples=number * every, value=value, billable_instance_seconds=billed))
    last = curve[-1]
    ended = TrialOutcome(
        billable_instance_seconds=start + len(curve) * seconds,
        samples=last.samples,
        quality=last.value,
        reached=last.value <= TARGET,
    )
    return Run(point=at, curve=tuple(curve), ended=ended)


def _loss(progress: float) -> float:
    """Return the loss at a share of the samples to the target; 0 for a training that diverges."""
    power = math.log((START_LOSS - END_LOSS) / (TARGET - END_LOSS)) / math.log(21)
    remaining: float = (1 + 20 * progress) ** -power
    return END_LOSS + (START_LOSS - END_LOSS) * remaining


def _between(limits: Range, random: Generator) -> float:
    return math.exp(random.uniform(math.log(limits[0]), math.log(limits[1])))
