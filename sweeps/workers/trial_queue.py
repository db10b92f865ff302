"""How a worker gets a trial: one at a time asks, counts what runs and what is spent, and claims a point.

The trial of a worker that died comes back: first it is failed, then another trial with its point and attributes waits
in its place. A worker may die between any two of these steps, so each is looked for by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import FrozenTrial, Trial, TrialState

from sweeps.cost_model.trials import OUT_OF_MEMORY, nearest, point_of
from sweeps.space.grid import Point, Space
from sweeps.space.objective import Objective
from sweeps.study.storage import Storage
from sweeps.study.study import (
    DUPLICATE,
    MOST_RETRIES,
    Spent,
    count,
    distributions,
    lost,
    retries,
    spent,
    telling,
)
from sweeps.workers.strategy import Strategy

MOST_FAILURES = 5
"""So many jobs that failed, and none that did not: the fault is not in the points."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a sweep may use."""

    trials: int | None = None
    """Of each study; those that failed do not count."""
    parallel: int = 1
    """Jobs of one worker at a time."""
    max_parallel: int = 1
    """Jobs of all workers at a time."""
    max_billable_instance_seconds: float | None = None
    """Instance seconds of all jobs; nothing starts once they are spent, and what runs then runs on."""
    max_usd: float | None = None
    """Money for all jobs, likewise."""


@dataclass(kw_only=True)
class Part:
    """The study of one compiler, and how it is searched."""

    compiler: str
    study: optuna.Study
    space: Space
    objective: Objective
    strategy: Strategy
    closed: tuple[tuple[int, int], str | None] = ((-1, -1), None)
    """Why nothing is left to start, and of how many trials, and ended ones, that was found."""
    said: set[int] = field(default_factory=set)
    """Numbers of the trials that were given up."""

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials as they are now."""
        return self.study.get_trials(deepcopy=False)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A trial that is this worker's."""

    part: Part
    trial: Trial
    point: Point
    job_name: str


@dataclass(frozen=True, kw_only=True)
class NoTrial:
    """Why there is no trial now."""

    reason: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why nothing more is started in the study of each compiler, where that holds for all."""
    is_over: bool = False
    """Nothing will be started any more, and nothing runs anywhere."""
    is_busy: bool = False
    """Somebody else is asking: it takes him moments."""


def ask(
    storage: Storage,
    sweep: str,
    parts: Sequence[Part],
    limits: Limits,
    job_name: Callable[[str, Point], str],
    say: Callable[[str], None],
) -> Claim | NoTrial:
    """Return a trial that this worker now has, or why there is none. One attempt, which can be repeated."""
    with storage.lock(sweep) as is_held:
        if not is_held:
            return NoTrial(reason="another worker is asking", is_busy=True)
        trials = [recover(part, say) for part in parts]
        running = sum(trial.state == TrialState.RUNNING for each in trials for trial in each)
        if running >= limits.max_parallel:
            return NoTrial(reason=f"{running} jobs run, which is max_parallel")
        part = _waiting(parts, trials)
        if part is None:
            reasons = _reasons(parts, trials, limits)
            if all(reasons):
                told = {part.compiler: str(reason) for part, reason in zip(parts, reasons, strict=True)}
                shown = "; ".join(f"{compiler}: {reason}" for compiler, reason in told.items())
                return NoTrial(reason=shown, reasons=told, is_over=not running)
            among = [index for index, reason in enumerate(reasons) if not reason]
            part = parts[min(among, key=lambda index: count(trials[index]))]
        return _claim(storage, part, job_name)


def recover(part: Part, say: Callable[[str], None]) -> list[FrozenTrial]:
    """Let the trials of workers that died wait for another worker, and return all trials. Only who has the lock may.

    Optuna fails those whose heartbeat has stopped. It never does so with one that has none yet; under the lock that is
    one whose claim is not its own: its worker died, or lost the storage, while it asked.
    """
    fail_stale_trials(part.study)
    trials = part.trials
    unclaimed = [trial for trial in trials if trial.state == TrialState.RUNNING and not is_claimed(trial)]
    for trial in unclaimed:
        with suppress(UpdateFinishedTrialError):
            part.study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    dead = [trial for trial in lost(part.trials if unclaimed else trials) if point_of(trial, part.space)]
    again = RetryHeartbeatStaleTrialCallback(inherit_intermediate_values=True)
    for trial in dead:  # one without a point has started nothing
        if len(retries(trial)) < MOST_RETRIES:
            again(part.study, copy.deepcopy(trial))  # it would append to the list that Optuna keeps
        elif trial.number not in part.said:
            part.said.add(trial.number)
            job = trial.user_attrs.get("job")
            say(f"Trial {trial.number} of {part.compiler} outlived {MOST_RETRIES} workers and is given up; job {job}.")
    return part.trials if dead else trials


def is_claimed(trial: FrozenTrial) -> bool:
    """Tell whether a trial that runs has its worker's mark: one that repeats another brings that one's along."""
    return bool(trial.user_attrs.get("claim") == trial.number)


def _waiting(parts: Sequence[Part], trials: Sequence[list[FrozenTrial]]) -> Part | None:
    """Return a study with a trial that waits: its job may run already, so it comes before all others."""
    for part, each in zip(parts, trials, strict=True):
        if any(trial.state == TrialState.WAITING for trial in each):
            return part
    return None


def _reasons(parts: Sequence[Part], trials: Sequence[list[FrozenTrial]], limits: Limits) -> list[str | None]:
    """Return for each study why nothing more is started in it, or None."""
    if limits.max_billable_instance_seconds is not None or limits.max_usd is not None:
        attributes = [part.study.user_attrs for part in parts]
        used = spent(list(zip(attributes, trials, strict=True)))
        if over := over_budget(used, limits):
            return [over] * len(parts)
    return [_closed(part, each, limits) for part, each in zip(parts, trials, strict=True)]


def over_budget(used: Spent, limits: Limits) -> str | None:
    """Return which budget is spent, or cannot be kept; None where there is some left."""
    seconds, most = used.billable_instance_seconds, limits.max_billable_instance_seconds
    if most is not None and seconds >= most:
        return f"max_billable_seconds {most:g} is spent ({seconds:.1f} s)"
    if limits.max_usd is None:
        return None
    if used.unpriced:
        return f"max_usd {limits.max_usd:g} cannot be kept: the price of job {used.unpriced[0]} is not known"
    return f"max_usd {limits.max_usd:g} is spent ({used.usd:.2f})" if used.usd >= limits.max_usd else None


def _closed(part: Part, trials: Sequence[FrozenTrial], limits: Limits) -> str | None:
    if limits.trials is not None and count(trials) >= limits.trials:
        return "1 trial is made" if limits.trials == 1 else f"{limits.trials} trials are made"
    state = len(trials), sum(trial.state.is_finished() for trial in trials)
    if part.closed[0] != state:
        part.closed = state, _exhausted(part, telling(trials))
    return part.closed[1]


def _exhausted(part: Part, trials: Sequence[FrozenTrial]) -> str | None:
    failed = [end for trial in trials if (end := str(trial.user_attrs.get("end", ""))).startswith("failed")]
    faults = [end for end in failed if end != f"failed: {OUT_OF_MEMORY}"]
    if len(faults) >= MOST_FAILURES and len(failed) == len(trials):
        return f"{len(faults)} jobs have failed and no other has ended; the last one: {faults[-1]}"
    if not part.strategy.free_points(trials):
        return "no point is left"
    return part.strategy.nothing_left(trials)


def _claim(storage: Storage, part: Part, job_name: Callable[[str, Point], str]) -> Claim | NoTrial:
    """Return the next trial with a point of its own: the one that waits, or the sampler's."""
    while True:
        trial = part.study.ask(distributions(part.space))
        others = [each for each in telling(part.trials) if each.number != trial.number]
        point = part.space.point(trial.params)
        if point not in {point_of(each, part.space) for each in others}:
            break
        # Not the sampler's word but the study's: of equal points the later one yields, and a free one comes next.
        trial.set_user_attr("end", DUPLICATE)
        part.study.tell(trial, state=TrialState.FAIL)
        if not (free := part.strategy.free_points(others)):
            return NoTrial(reason="no point is left")
        part.study.enqueue_trial(part.space.params(nearest(point, free)))
    name = job_name(part.compiler, point)
    claim = {"batch_size": point.batch_size, "multiplier": point.multiplier, "job": name}
    for key, value in claim.items():
        if trial.user_attrs.get(key) != value:
            trial.set_user_attr(key, value)
    storage.rdb.record_heartbeat(trial._trial_id)
    trial.set_user_attr("claim", trial.number)
    return Claim(part=part, trial=trial, point=point, job_name=name)
