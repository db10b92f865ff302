"""One trial while its job runs: what the job says becomes the trial's curve, and its end the trial's outcome.

Whoever finds that the trial is no longer his (Optuna's `UpdateFinishedTrialError`: he was paused, and the trial given
to another) has changed nothing by then, neither in the trial nor at the job.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from sweeps.space.objective import Ended, excess
from sweeps.study.storage import Storage
from sweeps.study.study import telling
from sweeps.workers.outcome import attributes, seconds_of, verdict
from sweeps.workers.runner import Runner, Running
from sweeps.workers.trial_queue import Claim
from training.contract.errors import JobNotFound

CONSTRAINT = "quality"
"""Name of Optuna's constraint: by how much the quality is beyond the objective's bound."""

_LARGE = 1e300
"""In place of infinity, which JSON does not know."""


class Followed:
    """A claimed trial and its job."""

    def __init__(self, storage: Storage, claim: Claim, running: Running | None) -> None:
        self.claim = claim
        self.trial_id = claim.trial._trial_id
        self.name = f"trial {claim.trial.number} of {claim.part.compiler}"
        self._storage, self._running = storage, running
        self._told = 0
        # Who had the trial before may have asked the job to stop, and died before it ended.
        self._pruning: str | None = claim.trial.user_attrs.get("pruning")

    @property
    def due(self) -> float:
        """When to look again, monotonic clock, seconds."""
        return self._running.due if self._running else 0.0

    def look(self) -> Ended | None:
        """See what is new and report it; return how the job ended, once it has."""
        assert self._running
        ended = self._running.look()
        if len(self._running.curve) > self._told:
            self._report(ended is None)
        return ended

    def _report(self, is_running: bool) -> None:
        assert self._running
        curve = list(self._running.curve)
        if not self.claim.part.objective.is_front:  # Optuna takes no intermediate values of two objectives
            for point in curve[self._told :]:
                self._call(
                    self._storage.rdb.set_trial_intermediate_value, self.trial_id, point.samples, float(point.value)
                )
        self._set("seconds", seconds_of(curve))
        self._set("billable_seconds", self._running.billable_instance_seconds)
        self._told = len(curve)
        if is_running and not self._pruning:
            self._stop_if_hopeless()

    def _stop_if_hopeless(self) -> None:
        assert self._running
        part = self.claim.part
        trials = [
            trial for trial in telling(self._call(lambda: part.trials)) if trial.number != self.claim.trial.number
        ]
        why = part.strategy.hopeless(
            trials, self.claim.point, self._running.curve, self._running.billable_instance_seconds
        )
        if why is None:
            return
        self._set("pruning", why)  # refused where the trial is another's: then the job is his to stop
        self._pruning = why
        with suppress(JobNotFound):  # it has vanished, which is told as such
            self._running.stop()

    def tell(self, ended: Ended, runner: Runner) -> str:
        """Write the outcome, to the trial and to the job's run, and return its `end`."""
        objective, trial = self.claim.part.objective, self.claim.trial
        state, values, end = verdict(objective, ended, self._pruning)
        for name, value in attributes(ended).items():
            self._set(name, value)
        beyond = None if ended.failure else excess(objective, ended)
        if beyond is not None and CONSTRAINT not in trial.constraints:
            self._call(trial.set_constraint, CONSTRAINT, min(beyond, _LARGE))
        self._set("end", end)  # refused where the trial is another's: then its job's run is his to conclude
        runner.conclude(self.claim.job_name, end)
        self._call(self._finish, state, values)
        return end

    def give_back(self) -> None:
        """Fail the trial without an end, so that another trial repeats it."""
        with suppress(UpdateFinishedTrialError):
            self._call(self._storage.rdb.set_trial_state_values, self.trial_id, TrialState.FAIL)

    def stop(self) -> None:
        """Ask the job to stop; its end is seen by `look`."""
        if self._running:
            self._running.stop()

    def close(self) -> None:
        """Leave the job running."""
        if self._running:
            self._running.close()

    def _set(self, name: str, value: Any) -> None:
        self._call(self._storage.rdb.set_trial_user_attr, self.trial_id, name, value)

    def _finish(self, state: TrialState, values: list[float] | None) -> None:
        found = self._storage.rdb.get_trial(self.trial_id).state
        if found == state:
            return  # told by us, and the answer was lost; anybody else's attributes would have been refused
        if found.is_finished():
            raise UpdateFinishedTrialError(f"{self.name} has ended")
        self.claim.part.study.tell(self.claim.trial, values, state=state)

    def _call(self, method: Any, *args: Any) -> Any:
        return self._storage.patience.call(method, *args)
