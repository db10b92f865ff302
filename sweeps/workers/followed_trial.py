"""Follow the running job of one trial: report its evaluations as the trial's curve, and record its outcome.

While a worker was paused, another worker may have taken over its trial. Optuna then raises `UpdateFinishedTrialError`
at the first write of the paused worker, which therefore changes neither the trial nor the job.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint, Objective, TrialOutcome, excess, values_of
from sweeps.study.storage import Storage
from sweeps.study.study import current_trials
from sweeps.workers.trial_queue import Claim
from training.contract.errors import JobNotFound

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

    def start(self, compiler: str, point: Point, trial_number: int) -> Running:
        """Start the point's job, or attach to an existing job with that name.

        Raises `QuotaError` if the account has no room for the job now, or ever (`is_final`), `BudgetFull` if the budget
        has none, and `InputError` if the service will never start it.
        """

    def conclude(self, job_name: str, end: str) -> None:
        """Record the trial's attribute `end` with the job."""


class FollowedTrial:
    """A claimed trial and its job."""

    def __init__(self, storage: Storage, claim: Claim, running: Running | None) -> None:
        self.claim = claim
        self.trial_id = claim.trial._trial_id
        self.name = f"trial {claim.trial.number} of {claim.part.compiler}"
        self._storage, self._running = storage, running
        self._reported = 0
        # The previous worker may have stopped the job and died before the job ended.
        self._pruning: str | None = claim.trial.user_attrs.get("pruning")

    @property
    def due(self) -> float:
        """Time of the next `look`, in seconds of the monotonic clock."""
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
        if not self.claim.part.search.objective.is_front:  # Optuna accepts no intermediate values with two objectives
            for point in curve[self._reported :]:
                self._call(
                    self._storage.rdb.set_trial_intermediate_value, self.trial_id, point.samples, float(point.value)
                )
        self._set("seconds", seconds_of(curve))
        self._set("billable_seconds", self._running.billable_instance_seconds)
        self._reported = len(curve)
        if not is_running or self._pruning:
            return
        part = self.claim.part
        all_trials = self._call(lambda: part.trials)
        trials = [trial for trial in current_trials(all_trials) if trial.number != self.claim.trial.number]
        seconds = self._running.billable_instance_seconds
        if (why := part.should_prune(trials, self.claim.point, self._running.curve, seconds)) is None:
            return
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
        """Ask the job to stop; `look` returns its outcome."""
        if self._running:
            self._running.stop()

    def close(self) -> None:
        """Stop following the job. It keeps running."""
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
        return TrialState.FAIL, None, f"failed: {outcome.failure.failure_class}"
    if values := values_of(objective, outcome):
        return TrialState.COMPLETE, values, "completed"
    if objective.target is not None and not outcome.reached:
        return TrialState.PRUNED, None, "not reached"
    return TrialState.FAIL, None, "failed: NoValue"


def attributes(outcome: TrialOutcome) -> dict[str, Any]:
    """Return the attributes of a trial whose job has ended; unknown values are left out."""
    values_by_name = {
        "billable_seconds": outcome.billable_instance_seconds,
        "usd": outcome.usd,
        "samples": outcome.samples,
        "quality": outcome.quality,
        "reached": outcome.reached,
        "steady_samples_per_second": outcome.steady_samples_per_second,
        "run_id": outcome.run_id,
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


def seconds_of(curve: Iterable[CurvePoint]) -> str:
    """Return the billable instance seconds at each point of a curve, by samples, as JSON."""
    return json.dumps({str(point.samples): round(point.billable_instance_seconds, 3) for point in curve})
