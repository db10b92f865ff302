"""Optuna studies of a sweep, one per compiler: open or resume them, select their trials, and sample new points."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sweeps.search_space import Point, Space
from sweeps.storage import Storage, wait_for_lock
from sweeps.trials import Objective, Search, free_points, nearest, records
from tracking.groups.plan_file import MIN_TRIALS
from training.contract.errors import InputError

MAX_RETRIES = 20
"""A trial whose workers died this many times counts as the cause and is given up."""
_LOCKED_SECONDS = 60.0
DUPLICATE = "duplicate"
"""Attribute `end` of a trial without a job, whose point belongs to another trial."""
NAMES = {"log2_batch_size": "batch_size", "log2_multiplier": "learning_rate"}
SMALL_SPACE = 30
"""Largest number of points for which a front trains all of them instead of using TPE."""
STARTUP_TRIALS = 3
"""Trials before TPE begins to choose: the base and random points. Optuna's ten are as many as a sweep takes in all."""


def open_study(
    storage: Storage,
    *,
    sweep: str,
    compiler: str,
    space: Space,
    objective: Objective,
    experiment: str,
    sampler: BaseSampler | None = None,
) -> optuna.Study:
    """Return the sweep's study of a compiler, and create it if it does not exist.

    `experiment` is the key of the experiment, the data and the source. Raises `InputError` if the existing study has a
    different search space, objective or experiment.
    """
    name = f"{sweep}/{compiler}"
    request = {"space": _plain(space), "objective": _plain(objective), "experiment": experiment, "compiler": compiler}

    def attempt() -> optuna.Study:
        with wait_for_lock(storage.lock, sweep, _LOCKED_SECONDS):
            study = optuna.create_study(
                storage=storage.rdb,
                study_name=name,
                directions=objective.directions,
                sampler=sampler,
                load_if_exists=True,
            )
            # The worker that created the study may have died before all of these were set.
            for key, value in request.items():
                if key not in study.user_attrs:
                    study.set_user_attr(key, value)
            return study

    study = storage.retries.call(attempt)
    if difference := _difference(storage.retries.call(lambda: study.user_attrs), request):
        raise InputError(
            f"study {name} in {storage.retries.name} has a different {difference}. A sweep that is resumed must not "
            "change it: choose a new sweep.name"
        )
    return study


def _plain(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as plain JSON values, in the form in which the database returns them."""
    fields: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return fields


def _difference(existing: Mapping[str, Any], request: Mapping[str, Any], within: str = "") -> str:
    """Return the first field that differs, with both values; an empty string if none does."""
    for key, value in request.items():
        before = existing.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if difference := _difference(before, value, f"{key}."):
                return difference
        elif before != value:
            return f"{within}{key} ({before}, not {value})"
    return ""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of the parameters of `space.params`."""
    low, high = space.params(space.points[0]), space.params(space.points[-1])
    by_name: dict[str, BaseDistribution] = {}
    for name, first in low.items():
        if name == "log2_multiplier":
            # A third of an octave has no exact binary value; `space.point` rounds to the nearest point of the grid.
            step = 1 / space.per_octave if space.per_octave in (1, 2, 4, 8) else None
            by_name[name] = FloatDistribution(float(first), float(high[name]), step=step)
        else:
            by_name[name] = IntDistribution(int(first), int(high[name]), step=8 if name == "batch_size" else 1)
    return by_name


def repeated_trials(trial: FrozenTrial) -> list[int]:
    """Return the numbers of the earlier trials that this one repeats because their workers died."""
    numbers: list[int] = trial.system_attrs.get("retry_history", [])
    return numbers


def lost_trials(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials whose worker died and that no other trial repeats yet."""
    trials = list(trials)
    repeated = {number for trial in trials for number in repeated_trials(trial)}
    return [
        trial
        for trial in trials
        if trial.state == TrialState.FAIL
        and trial.number not in repeated
        # A worker that records a failure writes its `end` first.
        and not str(trial.user_attrs.get("end", "")).startswith((DUPLICATE, "failed"))
    ]


def current_trials(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that represent a point: no duplicates, and no trial that another one repeats.

    Trials whose workers died before they had a point are left out. No job was started for them.
    """
    trials = list(trials)
    repeated = {number for trial in trials for number in repeated_trials(trial)}
    return [
        trial
        for trial in trials
        if trial.number not in repeated
        and trial.user_attrs.get("end") != DUPLICATE
        and (trial.state != TrialState.FAIL or "batch_size" in trial.user_attrs)
    ]


def count_trials(trials: Iterable[FrozenTrial]) -> int:
    """Return the number of trials that have not failed. A failed job says nothing about its point."""
    return sum(trial.state != TrialState.FAIL for trial in trials)


def importances(study: optuna.Study) -> dict[str, float]:
    """Return the share of the variance that each parameter explains, 0 to 1, by Optuna's default evaluator.

    Empty if too few trials completed, or if their values are equal.
    """
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(done) < MIN_TRIALS or len({tuple(trial.values) for trial in done}) < 2:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns about few trials
            shares = optuna.importance.get_param_importances(study, target=lambda trial: trial.values[0])
    except (RuntimeError, ValueError):  # the evaluator rejects some small studies
        return {}
    return {NAMES.get(name, name): float(share) for name, share in shares.items()}


class PointSampler(BaseSampler):
    """Sampler that picks points that no trial has taken: the base first, and then by its name.

    `grid` takes all points in order, `random` any point, and `tpe` the free point nearest to Optuna's suggestion, or
    any point before Optuna has one. `auto` is one of these, see `automatic`. Several processes may each use a sampler
    of their own on the same study.
    """

    def __init__(self, name: str, search: Search, seed: int | None) -> None:
        self.search = search
        self.distributions = distributions(search.space)
        self.random = random.Random(seed)
        self.tpe = TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        self.name = automatic(search) if name == "auto" else name

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
            point = self._choose(study, trial, free) if free else self.search.space.points[0]
        return self.search.space.params(point)

    def _choose(self, study: Study, trial: FrozenTrial, free: Sequence[Point]) -> Point:
        """Return the next of the free points, of which there is at least one."""
        if self.name == "grid":
            return min(free, key=partial(_grid_rank, self.search))
        if self.name == "tpe":
            space = {name: each for name, each in self.distributions.items() if not each.single()}
            if suggested := self.tpe.sample_relative(study, trial, space):
                fixed = self.search.space.params(self.search.space.points[0])
                return nearest(self.search.space.point({**fixed, **suggested}), free)
        return self.random.choice(free)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a value for a parameter that is not part of the space."""
        return RandomSampler().sample_independent(study, trial, param_name, param_distribution)


def _grid_rank(search: Search, point: Point) -> tuple[float, float, Point]:
    """Order points by their calibrated rate, and then by the distance of their multiplier from 1."""
    rate = search.costs.samples_per_second(point.batch_size) if search.costs else 0.0
    return -rate, max(point.multiplier, 1 / point.multiplier), point


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
