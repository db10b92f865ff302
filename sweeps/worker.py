"""One worker of a sweep: claim trials, follow their jobs and record the outcomes, in a single-threaded loop.

Any number of workers on any number of hosts share the studies of a sweep. However a worker ends, another one can
continue its work. The job's name is written to the trial before the job is submitted, and the name follows from the
trial's setting. So the trial's next worker attaches to the running job.

While a worker was paused, another worker may have taken over its trial. Optuna then raises `UpdateFinishedTrialError`
at the first write of the paused worker, which therefore changes neither the trial nor the job.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from sweeps.optuna_study import Claim, Limits, NoTrial, Part, claim_trial, current_trials
from sweeps.search_space import Point
from sweeps.storage import Storage
from sweeps.trials import CurvePoint, Objective, TrialOutcome, excess, values_of
from training.contract.errors import BudgetFull, InputError, JobNotFound, QuotaError, TrainfareError
from training.contract.failures import Failure
from training.services.interruption import Interrupts
from training.services.launcher import stop_all

_TICK_SECONDS = 0.02
_FULL_SECONDS = 60.0
"""Pause before the next start, after the service had no room for a job."""
_LONGEST_PAUSE_SECONDS = 5.0
"""Longest pause of a worker that could not claim a trial."""
CONSTRAINT = "quality"
"""Name of Optuna's constraint: by how much the quality is worse than the objective's bound."""
_LARGE = 1e300
"""Replaces infinity, which JSON cannot represent."""


class Running(Protocol):
    """Running job of a trial."""

    job_name: str

    @property
    def due(self) -> float:
        """Time of the next `look`, in seconds of the monotonic clock."""

    def look(self) -> TrialOutcome | None:
        """Record new events. Return the outcome once the job has ended and its log is read to the end."""

    @property
    def curve(self) -> Sequence[CurvePoint]:
        """All evaluations so far, in the order of their samples."""

    @property
    def billable_instance_seconds(self) -> float:
        """Billable seconds of all instances so far."""

    def stop(self) -> None:
        """Ask the job to stop; `look` returns its outcome."""

    def close(self) -> None:
        """Stop following the job. It keeps running."""


class Runner(Protocol):
    """Starter of a sweep's jobs."""

    def job_name(self, compiler: str, point: Point) -> str:
        """Return the name of the point's job. A point always has the same name, so no service starts it twice."""

    def start(self, compiler: str, point: Point, trial_number: int) -> Running | TrialOutcome:
        """Start the point's job, or attach to it if it exists. Return the outcome of a job that has ended.

        Raises `QuotaError` if the account has no room for the job now, or ever (`is_final`), `BudgetFull` if the budget
        has none, and `InputError` if the service will never start it.
        """

    def conclude(self, job_name: str, end: str) -> None:
        """Record the trial's attribute `end` with the job."""


def run_worker(
    storage: Storage,
    sweep: str,
    parts: Sequence[Part],
    runner: Runner,
    limits: Limits,
    *,
    echo: Callable[[str], None] = print,
) -> NoTrial:
    """Run trials until nothing is left to start and no trial of any worker is running. Return why it ended.

    A worker without a trial to start waits while trials of other workers run, and continues them if their workers die.
    Ctrl-C and SIGTERM stop this worker's jobs; a second Ctrl-C leaves them running. An error that ends the worker also
    leaves its jobs running, and has a note with their names.
    """
    with heartbeats(storage.rdb) as trial_ids:
        worker = _Worker(storage, sweep, parts, runner, limits, trial_ids, echo)
        try:
            with Interrupts(worker.stop) as interrupts:
                while not (done := worker.done(interrupts.stopping)):
                    if not worker.advance(interrupts):
                        time.sleep(_TICK_SECONDS)
            return done
        except TrainfareError as error:
            claims = [*(followed.claim for followed in worker.active), *worker.waiting]
            if names := [claim.job_name for claim in claims]:
                error.add_note(
                    f"Jobs that may still be running: {', '.join(names)}. The same command attaches to them."
                )
            raise
        finally:
            worker.close()


@dataclass(eq=False)
class _Worker:
    """Jobs that one worker follows."""

    storage: Storage
    sweep: str
    parts: Sequence[Part]
    runner: Runner
    limits: Limits
    trial_ids: set[int]
    """Trials whose heartbeats are sent."""
    echo: Callable[[str], None]
    active: list[FollowedTrial] = field(default_factory=list)
    waiting: list[Claim] = field(default_factory=list)
    """Claimed trials whose jobs cannot start yet, because the service has no room."""
    claim_at: float = 0.0
    """Time of the next claim, in seconds of the monotonic clock."""
    start_at: float = 0.0
    """Time of the next attempt to start a waiting trial, in seconds of the monotonic clock."""
    no_trial: NoTrial | None = None
    """Answer to the last claim, if it returned no trial."""

    def done(self, is_stopping: bool) -> NoTrial | None:
        """Return why nothing is left to do, or None."""
        if is_stopping:
            for claim in self.waiting:
                self._give_back(claim)
            self.waiting.clear()
            return None if self.active else NoTrial(reason="stopped", is_stopped=True)
        if self.active or self.waiting or self.no_trial is None or not self.no_trial.is_over:
            return None
        return self.no_trial

    def advance(self, interrupts: Interrupts) -> bool:
        """Start one job and look at one, if they are due. Return False if nothing was due."""
        started = False
        if not interrupts.stopping and self.waiting and time.monotonic() >= self.start_at:
            self._start(self.waiting.pop(0))
            started = True
        elif not interrupts.stopping:
            started = self._claim()
        if started and interrupts.stops_jobs:  # the signal arrived during the start
            self.stop()
        return self._look() or started

    def _claim(self) -> bool:
        if len(self.active) + len(self.waiting) >= self.limits.parallel or time.monotonic() < self.claim_at:
            return False
        call = self.storage.retries.call
        answer = call(claim_trial, self.storage, self.sweep, self.parts, self.limits, self.runner.job_name, self.echo)
        if isinstance(answer, NoTrial):
            self.no_trial = None if answer.is_busy else answer
            longest = min((self.storage.rdb.get_heartbeat_interval() or 1) / 2, _LONGEST_PAUSE_SECONDS)
            # A random part spreads out workers that started together.
            pause_seconds = (0.04 if answer.is_busy else longest) * random.uniform(0.5, 1.0)
            self.claim_at = time.monotonic() + pause_seconds
            return False
        self.no_trial = None
        self.trial_ids.add(answer.trial._trial_id)
        self._start(answer)
        return True

    def _start(self, claim: Claim) -> None:
        compiler, number = claim.part.compiler, claim.trial.number
        try:
            running = self.runner.start(compiler, claim.point, number)
        except BudgetFull as full:
            self.echo(f"  trial {number} of {compiler}: waits. {full}")
            if full.is_final or not self.active:
                self._give_back(claim)  # the next claim waits while jobs of other workers run
            else:
                self._wait(claim)
            return
        except (InputError, QuotaError) as error:
            if isinstance(error, QuotaError) and not error.is_final:
                self.echo(f"  trial {number} of {compiler}: waits. {error}")
                self._wait(claim)
                return
            self.echo(f"  trial {number} of {compiler}: refused. {error}")
            outcome = TrialOutcome(failure=Failure("Refused", str(error)))
            self._record_outcome(FollowedTrial(self.storage, claim), outcome)
            return
        if isinstance(running, TrialOutcome):
            self._record_outcome(FollowedTrial(self.storage, claim), running)
        else:
            self.active.append(FollowedTrial(self.storage, claim, running))

    def _wait(self, claim: Claim) -> None:
        self.waiting.append(claim)
        self.start_at = time.monotonic() + _FULL_SECONDS

    def _look(self) -> bool:
        """Report new evaluations of the job that is due first. Return False if no job is due."""
        followed = min(self.active, key=lambda each: each.due, default=None)
        if followed is None or followed.due > time.monotonic():
            return False
        try:
            if outcome := followed.look():
                self._record_outcome(followed, outcome)
        except UpdateFinishedTrialError:
            self._yield_trial(followed)
        return True

    def _record_outcome(self, followed: FollowedTrial, outcome: TrialOutcome) -> None:
        try:
            end = followed.record_outcome(outcome, self.runner)
            reason = f" ({outcome.failure.message})" if outcome.failure and not end.startswith("pruned") else ""
            self.echo(f"  {followed.name}: {end}{reason}")
        except UpdateFinishedTrialError:
            self._yield_trial(followed)
        self._drop(followed)
        self.claim_at = self.start_at = 0.0

    def _yield_trial(self, followed: FollowedTrial) -> None:
        """Leave a job to the worker that continues its trial."""
        self.echo(f"  {followed.name}: taken over by another worker, because this worker sent no heartbeat in time")
        self._drop(followed)

    def _drop(self, followed: FollowedTrial) -> None:
        followed.close()
        self.trial_ids.discard(followed.trial_id)
        if followed in self.active:
            self.active.remove(followed)

    def _give_back(self, claim: Claim) -> None:
        """Release a trial whose job was never started, so that another worker or a later command can take it."""
        self.trial_ids.discard(claim.trial._trial_id)
        FollowedTrial(self.storage, claim).give_back()

    def stop(self) -> None:
        """Ask all jobs to stop. Raises the first error."""
        stop_all([followed.stop for followed in self.active])

    def close(self) -> None:
        """Stop following the jobs. They keep running."""
        for followed in self.active:
            followed.close()


@contextmanager
def heartbeats(rdb: RDBStorage) -> Iterator[set[int]]:
    """Send a heartbeat for every trial in the set that is yielded, at the storage's interval.

    A separate thread sends them, so that a slow job does not delay them. Optuna's own thread ends at the first error.
    """
    trial_ids: set[int] = set()
    end = threading.Event()

    def beat() -> None:
        while not end.wait(rdb.get_heartbeat_interval() or 1):
            for trial_id in list(trial_ids):
                # After any error, the next beat tries again. The worker's loop reports a lost database.
                with suppress(Exception):
                    rdb.record_heartbeat(trial_id)
        rdb.remove_session()

    thread = threading.Thread(target=beat, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield trial_ids
    finally:
        end.set()
        thread.join(timeout=5.0)  # a database that does not answer must not delay the worker's end


class FollowedTrial:
    def __init__(self, storage: Storage, claim: Claim, running: Running | None = None) -> None:
        self.claim = claim
        self.trial_id = claim.trial._trial_id
        self.name = f"trial {claim.trial.number} of {claim.part.compiler}"
        self._storage, self._running = storage, running
        self._reported = 0
        # The previous worker may have stopped the job and died before the job ended.
        self._pruning: str | None = claim.trial.user_attrs.get("pruning")

    @property
    def due(self) -> float:
        return self._running.due if self._running else 0.0

    def look(self) -> TrialOutcome | None:
        """Report new evaluations. Return the outcome once the job has ended."""
        assert self._running
        outcome = self._running.look()
        if len(self._running.curve) > self._reported:
            self._report(outcome is None)
        return outcome

    def _report(self, is_running: bool) -> None:
        assert self._running
        curve = list(self._running.curve)
        objective = self.claim.part.search.objective
        # Optuna accepts no intermediate values with two objectives. The last one becomes the value of a pruned trial.
        if objective.cost == "billable_seconds" and not objective.is_front:
            set_value = self._storage.rdb.set_trial_intermediate_value
            for point in curve[self._reported :]:
                self._call(set_value, self.trial_id, point.samples, point.billable_instance_seconds)
        self._set("curve", curve_text(curve))
        self._set("billable_seconds", self._running.billable_instance_seconds)
        self._reported = len(curve)
        if not is_running or self._pruning:
            return
        part = self.claim.part
        all_trials = self._call(lambda: part.trials)
        trials = [trial for trial in current_trials(all_trials) if trial.number != self.claim.trial.number]
        spent = self._running.billable_instance_seconds
        if why := part.should_prune(trials, self.claim.point, self._running.curve, spent):
            self._set("pruning", why)  # fails if another worker has the trial: this worker must not stop the job then
            self._pruning = why
            with suppress(JobNotFound):  # the next look reports the missing job
                self._running.stop()

    def record_outcome(self, outcome: TrialOutcome, runner: Runner) -> str:
        """Write the outcome to the trial and to the job's run, and return the trial's `end`."""
        objective, trial = self.claim.part.search.objective, self.claim.trial
        state, values, end = trial_result(objective, outcome, self._pruning)
        for name, value in attributes(outcome).items():
            self._set(name, value)
        beyond = None if outcome.failure else excess(objective, outcome)
        if beyond is not None and CONSTRAINT not in trial.constraints:
            self._call(trial.set_constraint, CONSTRAINT, min(beyond, _LARGE))
        self._set("end", end)  # fails if another worker has the trial; that worker then concludes the run
        runner.conclude(self.claim.job_name, end)
        self._call(self._finish, state, values)
        return end

    def give_back(self) -> None:
        """Fail the trial without an `end`, so that another trial repeats it."""
        with suppress(UpdateFinishedTrialError):
            self._call(self._storage.rdb.set_trial_state_values, self.trial_id, TrialState.FAIL)

    def stop(self) -> None:
        if self._running:
            self._running.stop()

    def close(self) -> None:
        if self._running:
            self._running.close()

    def _set(self, name: str, value: Any) -> None:
        self._call(self._storage.rdb.set_trial_user_attr, self.trial_id, name, value)

    def _finish(self, state: TrialState, values: list[float] | None) -> None:
        existing = self._storage.rdb.get_trial(self.trial_id).state
        if existing == state:
            return  # this worker's write succeeded and only the answer was lost: after another worker's, `end` failed
        if existing.is_finished():
            raise UpdateFinishedTrialError(f"{self.name} has ended")
        self.claim.part.study.tell(self.claim.trial, values, state=state)

    def _call(self, method: Any, *args: Any) -> Any:
        return self._storage.retries.call(method, *args)


def trial_result(
    objective: Objective, outcome: TrialOutcome, pruning: str | None
) -> tuple[TrialState, list[float] | None, str]:
    """Return the trial's state, its values and its `end`; `pruning` is the reason why the sweep stopped the job.

    A job that completed although it was stopped counts as completed.
    """
    if outcome.failure:
        if outcome.failure.is_stop and pruning:
            return TrialState.PRUNED, None, f"pruned: {pruning}"
        if outcome.failure.failure_class == "Diverged":
            return TrialState.PRUNED, None, f"pruned: {outcome.failure.message}"
        return TrialState.FAIL, None, f"failed: {outcome.failure.failure_class}"
    if values := values_of(objective, outcome):
        return TrialState.COMPLETE, values, "completed"
    if objective.target is not None and not outcome.reached:
        return TrialState.PRUNED, None, "not reached"
    return TrialState.FAIL, None, "failed: NoValue"


def attributes(outcome: TrialOutcome) -> dict[str, Any]:
    """Return the attributes of a trial whose job has ended; unknown values are left out."""
    names = ("usd", "samples", "quality", "reached", "steady_samples_per_second", "run_id")
    values_by_name = {name: getattr(outcome, name) for name in names} | {
        "billable_seconds": outcome.billable_instance_seconds,
        "exception": outcome.death.exception if outcome.death else None,
        "exception_moment": outcome.death.moment if outcome.death else None,
        "reason": outcome.failure.message[:1000] if outcome.failure else None,
    }
    # Neither the database nor a browser accepts NaN.
    return {
        name: value
        for name, value in values_by_name.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


def curve_text(curve: Iterable[CurvePoint]) -> str:
    """Return the samples, the quality and the billable instance seconds of each point of a curve as JSON."""
    return json.dumps([[each.samples, each.value, round(each.billable_instance_seconds, 3)] for each in curve])
