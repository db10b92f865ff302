"""Follow the running job of one trial: report its evaluations as the trial's curve, and record its outcome.

While a worker was paused, another worker may have taken over its trial. Optuna then raises `UpdateFinishedTrialError`
at the first write of the paused worker, which therefore changes neither the trial nor the job.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from sweeps.space.objective import TrialOutcome, excess
from sweeps.study.storage import Storage
from sweeps.study.study import current_trials
from sweeps.workers.outcome import attributes, seconds_of, trial_result
from sweeps.workers.runner import Runner, Running
from sweeps.workers.trial_queue import Claim
from training.contract.errors import JobNotFound

CONSTRAINT = "quality"
"""Name of Optuna's constraint: by how much the quality is worse than the objective's bound."""

_LARGE = 1e300
"""Replaces infinity, which JSON cannot represent."""


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
        if not self.claim.part.objective.is_front:  # Optuna accepts no intermediate values with two objectives
            for point in curve[self._reported :]:
                self._call(
                    self._storage.rdb.set_trial_intermediate_value, self.trial_id, point.samples, float(point.value)
                )
        self._set("seconds", seconds_of(curve))
        self._set("billable_seconds", self._running.billable_instance_seconds)
        self._reported = len(curve)
        if is_running and not self._pruning:
            self._prune_if_needed()

    def _prune_if_needed(self) -> None:
        assert self._running
        part = self.claim.part
        all_trials = self._call(lambda: part.trials)
        trials = [trial for trial in current_trials(all_trials) if trial.number != self.claim.trial.number]
        why = part.strategy.should_prune(
            trials, self.claim.point, self._running.curve, self._running.billable_instance_seconds
        )
        if why is None:
            return
        self._set("pruning", why)  # fails if another worker has the trial: this worker must not stop the job then
        self._pruning = why
        with suppress(JobNotFound):  # the next look reports the missing job
            self._running.stop()

    def record_outcome(self, outcome: TrialOutcome, runner: Runner) -> str:
        """Write the outcome to the trial and to the job's run, and return the trial's `end`."""
        objective, trial = self.claim.part.objective, self.claim.trial
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
