"""Optuna samplers over a finite space. No point is suggested twice while any point is untried."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from sweeps.cost_model.trials import Search, free_points, nearest, records
from sweeps.space.grid import Point
from sweeps.study.study import distributions

SMALL_SPACE = 30
"""Largest number of points for which a front trains all of them instead of using TPE."""
STARTUP_TRIALS = 3
"""Trials before TPE begins to choose: the base and random points. Optuna's ten are as many as a sweep takes in all."""


class PointSampler(BaseSampler):
    """Sampler that picks points that no trial has taken: the base first, and the others with a function of `CHOICES`.

    Several processes may each use a sampler of their own on the same study.
    """

    def __init__(self, name: str, search: Search, seed: int | None) -> None:
        self.search = search
        self.distributions = distributions(search.space)
        self.random = random.Random(seed)
        self.tpe = TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        self._choose = CHOICES[automatic(search) if name == "auto" else name]

    def reseed_rng(self) -> None:
        """Start a new sequence of random numbers, as Optuna requires of copied samplers."""
        self.random.seed()
        self.tpe.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the whole space, regardless of earlier trials."""
        return self.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of the next point. If no point is free, return the space's first."""
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        known = records(others, self.search.space)
        free = free_points(self.search, known)
        if self.search.base in free and not known:
            point = self.search.base
        else:
            point = self._choose(self, study, trial, free) if free else self.search.space.points[0]
        return self.search.space.params(point)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a value for a parameter that is not part of the space."""
        return RandomSampler().sample_independent(study, trial, param_name, param_distribution)


def _grid(sampler: PointSampler, study: Study, trial: FrozenTrial, free: Sequence[Point]) -> Point:
    """Choose all points in order: by calibrated rate, with multipliers near 1 before others."""
    return min(free, key=partial(_grid_rank, sampler.search))


def _grid_rank(search: Search, point: Point) -> tuple[float, float, Point]:
    rate = search.costs.samples_per_second(point.batch_size) if search.costs else 0.0
    return -rate, max(point.multiplier, 1 / point.multiplier), point


def _random(sampler: PointSampler, study: Study, trial: FrozenTrial, free: Sequence[Point]) -> Point:
    """Choose any point."""
    return sampler.random.choice(free)


def _tpe(sampler: PointSampler, study: Study, trial: FrozenTrial, free: Sequence[Point]) -> Point:
    """Choose Optuna's suggestion, or the free point nearest to it."""
    space = {name: each for name, each in sampler.distributions.items() if not each.single()}
    suggested: Mapping[str, Any] = sampler.tpe.sample_relative(study, trial, space)
    if not suggested:
        return sampler.random.choice(free)
    fixed = sampler.search.space.params(sampler.search.space.points[0])
    return nearest(sampler.search.space.point({**fixed, **suggested}), free)


CHOICES: dict[str, Callable[[PointSampler, Study, FrozenTrial, Sequence[Point]], Point]] = {
    "grid": _grid,
    "random": _random,
    "tpe": _tpe,
}
"""Functions from the free points (at least one) to the next point, by the names of the samplers. `auto` is one of
these, see `automatic`."""


def automatic(search: Search) -> str:
    """Return the sampler that `auto` uses: `grid` for throughput and for the front of a small space, else `tpe`."""
    if search.objective.is_front:
        return "grid" if len(search.space.points) <= SMALL_SPACE else "tpe"
    return "grid" if search.objective.cost == "steady_samples_per_second" else "tpe"


def first_points(name: str, search: Search, count: int) -> list[Point]:
    """Return up to `count` points that a sampler tries first, as far as they do not depend on results.

    The base comes first. Only `grid` fixes further points in advance.
    """
    base = [search.base] if search.base in search.space.points else []
    name = automatic(search) if name == "auto" else name
    if name != "grid":
        return base[:count]
    others = sorted((point for point in search.space.points if point not in base), key=partial(_grid_rank, search))
    return [*base, *others][:count]
