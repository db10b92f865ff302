"""Give a worker its next trial: one worker at a time counts running jobs and costs, and claims a point.

The trial of a worker that died is repeated: it is marked as failed, and a new trial with its point and attributes is
enqueued. A worker may die between any two of these steps, so the recovery checks each step separately.
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

from judging.doomed import Death, doom_of
from sweeps.cost_model.trials import OUT_OF_MEMORY, nearest, point_of
from sweeps.space.grid import Point, Space
from sweeps.space.objective import Objective
from sweeps.study.storage import Storage
from sweeps.study.study import (
    DUPLICATE,
    MAX_RETRIES,
    count_trials,
    current_trials,
    distributions,
    lost_trials,
    repeated_trials,
)
from sweeps.workers.strategy import Strategy

MAX_FAILURES = 5
"""If this many jobs failed and no job ended otherwise, the points are not the cause and the study ends."""


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
    """Study of one compiler, and its search."""

    compiler: str
    study: optuna.Study
    space: Space
    objective: Objective
    strategy: Strategy
    closed: tuple[tuple[int, int], str | None] = ((-1, -1), None)
    """Cached reason why nothing is left to start (or None), after the numbers of trials and of finished trials for
    which it was computed."""
    given_up: set[int] = field(default_factory=set)
    """Numbers of the trials that are not repeated any more, because too many workers died with them."""

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials in their current state."""
        return self.study.get_trials(deepcopy=False)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Trial that belongs to this worker."""

    part: Part
    trial: Trial
    point: Point
    job_name: str


@dataclass(frozen=True, kw_only=True)
class NoTrial:
    """Reason why no trial can be claimed now."""

    reason: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason for the study of each compiler, if none of them starts more trials."""
    is_over: bool = False
    """True if no job will start any more and no worker has a running trial."""
    is_over_budget: bool = False
    """True if the budget has no room for another job now."""
    is_busy: bool = False
    """True if another worker is claiming a trial at the moment."""


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
        part = _with_waiting_trial(parts, trials)
        if part is None:
            reasons = _reasons(parts, trials, limits)
            if all(reasons):
                by_compiler = {part.compiler: str(why) for part, why in zip(parts, reasons, strict=True)}
                reason = "; ".join(f"{compiler}: {why}" for compiler, why in by_compiler.items())
                return NoTrial(reason=reason, reasons=by_compiler, is_over=not running)
            open_indices = [index for index, why in enumerate(reasons) if not why]
            part = parts[min(open_indices, key=lambda index: count_trials(trials[index]))]
        if why := limits.no_room(_waiting_jobs(trials)):
            reasons_of_budget = {each.compiler: why for each in parts}
            return NoTrial(reason=why, reasons=reasons_of_budget, is_over=not running, is_over_budget=True)
        return _claim(storage, part, job_name)


def recover_trials(part: Part, echo: Callable[[str], None]) -> list[FrozenTrial]:
    """Enqueue the trials of dead workers again, and return all trials. The caller must hold the lock.

    Optuna fails trials whose heartbeat has stopped, but not trials that never had a heartbeat. Under the lock, a
    running trial of that kind has no claim: its worker died, or lost the storage, while it was claiming the trial.
    """
    fail_stale_trials(part.study)
    trials = part.trials
    unclaimed = [trial for trial in trials if trial.state == TrialState.RUNNING and not is_claimed(trial)]
    for trial in unclaimed:
        with suppress(UpdateFinishedTrialError):
            part.study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    dead = [trial for trial in lost_trials(part.trials if unclaimed else trials) if point_of(trial, part.space)]
    repeat = RetryHeartbeatStaleTrialCallback(inherit_intermediate_values=True)
    for trial in dead:  # a trial without a point has started nothing
        if len(repeated_trials(trial)) < MAX_RETRIES:
            repeat(part.study, copy.deepcopy(trial))  # a copy, because the callback appends to a list that Optuna keeps
        elif trial.number not in part.given_up:
            part.given_up.add(trial.number)
            job = trial.user_attrs.get("job")
            echo(f"Giving up trial {trial.number} of {part.compiler} (job {job}): {MAX_RETRIES} workers died with it.")
    return part.trials if dead else trials


def is_claimed(trial: FrozenTrial) -> bool:
    """Return whether a worker has claimed this running trial. A repeated trial inherits the first trial's claim, which
    does not count."""
    return bool(trial.user_attrs.get("claim") == trial.number)


def _waiting_jobs(trials: Sequence[list[FrozenTrial]]) -> list[str]:
    """Return the names of the jobs of waiting trials, whose workers died."""
    waiting = (trial for each in trials for trial in each if trial.state == TrialState.WAITING)
    return [job for trial in waiting if (job := trial.user_attrs.get("job"))]


def _with_waiting_trial(parts: Sequence[Part], trials: Sequence[list[FrozenTrial]]) -> Part | None:
    """Return a study with a waiting trial, if any. Waiting trials come first, because their jobs may be running."""
    for part, each in zip(parts, trials, strict=True):
        if any(trial.state == TrialState.WAITING for trial in each):
            return part
    return None


def _reasons(parts: Sequence[Part], trials: Sequence[list[FrozenTrial]], limits: Limits) -> list[str | None]:
    """Return for each study why it starts no more trials, or None if it can start one."""
    return [_closed(part, each, limits) for part, each in zip(parts, trials, strict=True)]


def _closed(part: Part, trials: Sequence[FrozenTrial], limits: Limits) -> str | None:
    if limits.trials is not None and count_trials(trials) >= limits.trials:
        return "1 trial was run" if limits.trials == 1 else f"{limits.trials} trials were run"
    state = len(trials), sum(trial.state.is_finished() for trial in trials)
    if part.closed[0] != state:
        part.closed = state, _exhausted(part, current_trials(trials))
    return part.closed[1]


def _exhausted(part: Part, trials: Sequence[FrozenTrial]) -> str | None:
    failed = [end for trial in trials if (end := str(trial.user_attrs.get("end", ""))).startswith("failed")]
    faults = [end for end in failed if end not in (f"failed: {OUT_OF_MEMORY}", "failed: Stopped")]
    if failed and len(failed) == len(trials) and (doom := doom_of(_imports(trials))):
        return f"no job ended without an error, and all further ones would die of {doom.exception}"
    if len(faults) >= MAX_FAILURES and len(failed) == len(trials):
        return f"{len(faults)} jobs failed and no other job ended; the last one {faults[-1]}"
    if not part.strategy.free_points(trials):
        return "no point is left"
    return part.strategy.stop_reason(trials)


def _imports(trials: Sequence[FrozenTrial]) -> list[Death]:
    """Return the errors of imports and of the syntax. Other exceptions may be due to a trial's setting."""
    return [
        Death(exception=str(trial.user_attrs.get("exception")), moment="import")
        for trial in trials
        if trial.user_attrs.get("exception_moment") == "import"
    ]


def _claim(storage: Storage, part: Part, job_name: Callable[[str, Point], str]) -> Claim | NoTrial:
    """Claim the next trial whose point no other trial has: an enqueued trial, or else a new one from the sampler."""
    while True:
        trial = part.study.ask(distributions(part.space))
        others = [each for each in current_trials(part.trials) if each.number != trial.number]
        point = part.space.point(trial.params)
        if point not in {point_of(each, part.space) for each in others}:
            break
        # The study decides, not the sampler: the later of two trials with equal points ends, and a free point is next.
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
