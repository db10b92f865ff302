"""Optuna studies of a sweep, one per compiler: open or resume them, sample new points, and claim trials for workers.

One worker at a time counts running jobs and costs, and claims a point. The trial of a worker that died is repeated: it
is marked as failed, and a new trial with its point and attributes is enqueued. A worker may die between any two of
these steps, so the recovery checks each step separately.
"""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from judging.deterministic_failures import Death, deterministic_failure
from sweeps.early_stopping import should_prune, stop_reason
from sweeps.search_space import Point, Space
from sweeps.storage import Storage, wait_for_lock
from sweeps.trials import (
    OUT_OF_MEMORY,
    CurvePoint,
    Objective,
    Record,
    Search,
    free_points,
    nearest,
    point_of,
    records,
)
from training.contract.errors import InputError

MAX_RETRIES = 20
"""A trial whose workers died this many times counts as the cause and is given up."""
MAX_FAILURES = 5
"""If this many jobs failed and no job ended otherwise, the points are not the cause and the study ends."""
_LOCKED_SECONDS = 60.0
DUPLICATE = "duplicate"
"""Attribute `end` of a trial without a job, whose point belongs to another trial."""
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
            with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
                study.set_metric_names(objective.names)
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
        if name == "learning_rate_scaling":
            by_name[name] = CategoricalDistribution(space.scalings)
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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resources that a sweep may use."""

    trials: int | None = None
    """Trials of each study, without failed ones."""
    parallel: int = 1
    """Concurrent jobs of one worker."""
    max_parallel: int = 1
    """Concurrent jobs of all workers."""
    no_room: Callable[[Sequence[str]], str | None] = lambda _: None
    """Returns why the budget has no room for another job, or None. It has room for the jobs with these names if one of
    them was started before."""


@dataclass(kw_only=True)
class Part:
    """Study of one compiler, and the decisions about it. Their `trials` come from `current_trials`."""

    compiler: str
    study: optuna.Study
    search: Search
    prunes: bool = True
    """True to stop trials that can no longer win."""
    ends_early: bool = True
    """True to end the study when no better point is likely; False to train all points or `sweep.trials` of them."""
    given_up: set[int] = field(default_factory=set)
    """Numbers of the trials that are not repeated any more, because too many workers died with them."""

    @property
    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    @property
    def records(self) -> tuple[Record, ...]:
        """Records of the trials that represent a point."""
        return records(current_trials(self.trials), self.search.space)

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        return free_points(self.search, records(trials, self.search.space))

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        return stop_reason(self.search, records(trials, self.search.space)) if self.ends_early else None

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        if not self.prunes:
            return None
        known = records(trials, self.search.space)
        return should_prune(self.search, known, point, curve, billable_instance_seconds)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Trial that belongs to this worker."""

    part: Part
    trial: Trial
    point: Point
    job_name: str


@dataclass(frozen=True, kw_only=True)
class NoTrial:
    """Reason why no trial can be claimed now, or why a worker has ended."""

    reason: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason for the study of each compiler, if none of them starts more trials."""
    is_over: bool = False
    """True if no job will start any more and no worker has a running trial."""
    is_over_budget: bool = False
    """True if the budget has no room for another job now."""
    is_busy: bool = False
    """True if another worker is claiming a trial at the moment."""
    is_stopped: bool = False
    """True if a person stopped the worker. The sweep may have more trials to run."""


def claim_trial(
    storage: Storage,
    sweep: str,
    parts: Sequence[Part],
    limits: Limits,
    job_name: Callable[[str, Point], str],
    echo: Callable[[str], None],
) -> Claim | NoTrial:
    """Claim a trial for this worker, or return why none can be claimed. Tries once; the caller may try again."""
    with storage.lock(sweep) as is_held:
        if not is_held:
            return NoTrial(reason="another worker is claiming a trial", is_busy=True)
        trials = [recover_trials(part, echo) for part in parts]
        running = sum(trial.state == TrialState.RUNNING for each in trials for trial in each)
        if running >= limits.max_parallel:
            return NoTrial(reason=f"{running} jobs are running, which is max_parallel")
        # Waiting trials, whose workers died, come first: their jobs may be running.
        waiting = [[trial for trial in each if trial.state == TrialState.WAITING] for each in trials]
        part = next((part for part, each in zip(parts, waiting, strict=True) if each), None)
        if part is None:
            reasons = [_reason_to_end(part, each, limits) for part, each in zip(parts, trials, strict=True)]
            if all(reasons):
                by_compiler = {part.compiler: str(why) for part, why in zip(parts, reasons, strict=True)}
                reason = "; ".join(f"{compiler}: {why}" for compiler, why in by_compiler.items())
                return NoTrial(reason=reason, reasons=by_compiler, is_over=not running)
            open_indices = [index for index, why in enumerate(reasons) if not why]
            part = parts[min(open_indices, key=lambda index: count_trials(trials[index]))]
        jobs_of_waiting = [job for each in waiting for trial in each if (job := trial.user_attrs.get("job"))]
        if why := limits.no_room(jobs_of_waiting):
            reasons_of_budget = {each.compiler: why for each in parts}
            return NoTrial(reason=why, reasons=reasons_of_budget, is_over=not running, is_over_budget=True)
        return _claim(storage, part, job_name)


def _reason_to_end(part: Part, all_trials: Sequence[FrozenTrial], limits: Limits) -> str | None:
    """Return why the study starts no more trials, or None if it can start one."""
    if limits.trials is not None and count_trials(all_trials) >= limits.trials:
        return "1 trial was run" if limits.trials == 1 else f"{limits.trials} trials were run"
    trials = current_trials(all_trials)
    failed = [end for trial in trials if (end := str(trial.user_attrs.get("end", ""))).startswith("failed")]
    if failed and len(failed) == len(trials):
        # Only errors of imports and of the syntax: other exceptions may be due to a trial's setting.
        attributes = [trial.user_attrs for trial in trials if trial.user_attrs.get("exception_moment") == "import"]
        if failure := deterministic_failure(
            [Death(exception=str(each.get("exception")), moment="import") for each in attributes]
        ):
            return f"no job ended without an error, and all further ones would fail with {failure.exception}"
        faults = [end for end in failed if end not in (f"failed: {OUT_OF_MEMORY}", "failed: Stopped")]
        if len(faults) >= MAX_FAILURES:
            return f"{len(faults)} jobs failed and no other job ended; the last one {faults[-1]}"
    return part.stop_reason(trials) if part.free_points(trials) else "no point is left"


def _claim(storage: Storage, part: Part, job_name: Callable[[str, Point], str]) -> Claim | NoTrial:
    """Claim the next trial whose point no other trial has: an enqueued trial, or else a new one from the sampler."""
    while True:
        trial = part.study.ask(distributions(part.search.space))
        others = [each for each in current_trials(part.trials) if each.number != trial.number]
        point = part.search.space.point(trial.params)
        if point not in {point_of(each, part.search.space) for each in others}:
            break
        # The study decides, not the sampler: the later of two trials with equal points ends, and a free point is next.
        trial.set_user_attr("end", DUPLICATE)
        part.study.tell(trial, state=TrialState.FAIL)
        if not (free := part.free_points(others)):
            return NoTrial(reason="no point is left")
        part.study.enqueue_trial(part.search.space.params(nearest(point, free)))
    name = job_name(part.compiler, point)
    claim = {"batch_size": point.batch_size, "multiplier": point.multiplier, "job": name}
    claim |= {"scaling": point.scaling} if point.scaling else {}
    claim |= {"hyperparameters": point.hyperparameters} if point.hyperparameters else {}
    for key, value in claim.items():
        if trial.user_attrs.get(key) != value:
            trial.set_user_attr(key, value)
    storage.rdb.record_heartbeat(trial._trial_id)
    trial.set_user_attr("claim", trial.number)
    return Claim(part=part, trial=trial, point=point, job_name=name)


def recover_trials(part: Part, echo: Callable[[str], None]) -> list[FrozenTrial]:
    """Enqueue the trials of dead workers again, and return all trials. The caller must hold the lock.

    Optuna fails trials whose heartbeat has stopped, but not trials that never had a heartbeat. Under the lock, a
    running trial of that kind has no claim: its worker died, or lost the storage, while it was claiming the trial.
    """
    fail_stale_trials(part.study)
    trials = part.trials
    # A repeated trial inherits the claim of the first one, which does not count.
    running = [trial for trial in trials if trial.state == TrialState.RUNNING]
    unclaimed = [trial for trial in running if trial.user_attrs.get("claim") != trial.number]
    for trial in unclaimed:
        with suppress(UpdateFinishedTrialError):
            part.study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    dead = [trial for trial in lost_trials(part.trials if unclaimed else trials) if point_of(trial, part.search.space)]
    repeat = RetryHeartbeatStaleTrialCallback(inherit_intermediate_values=True)
    for trial in dead:  # a trial without a point has started nothing
        if len(repeated_trials(trial)) < MAX_RETRIES:
            repeat(part.study, copy.deepcopy(trial))  # a copy, because the callback appends to a list that Optuna keeps
        elif trial.number not in part.given_up:
            part.given_up.add(trial.number)
            job = trial.user_attrs.get("job")
            echo(f"Giving up trial {trial.number} of {part.compiler} (job {job}): {MAX_RETRIES} workers died with it.")
    return part.trials if dead else trials
