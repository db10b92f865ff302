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

from judging.deterministic_failures import Death, deterministic_failure
from sweeps.early_stopping import should_prune, stop_reason
from sweeps.optuna_study import (
    DUPLICATE,
    MAX_RETRIES,
    count_trials,
    current_trials,
    distributions,
    lost_trials,
    repeated_trials,
)
from sweeps.search_space import Point
from sweeps.storage import Storage
from sweeps.trials import OUT_OF_MEMORY, CurvePoint, Record, Search, free_points, nearest, point_of, records

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
    """Study of one compiler, and the decisions about it. Their `trials` come from `study.current_trials`."""

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
        """All trials in their current state."""
        return self.study.get_trials(deepcopy=False)

    @property
    def records(self) -> tuple[Record, ...]:
        """Records of the trials that represent a point."""
        return records(current_trials(self.trials), self.search.space)

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points without a trial that may fit in memory."""
        return free_points(self.search, records(trials, self.search.space))

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return why no better point is likely, or None."""
        return stop_reason(self.search, records(trials, self.search.space)) if self.ends_early else None

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return why a running trial can no longer win, or None."""
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
