"""One worker of a sweep: asks for trials, follows their jobs and tells how they ended, in one loop of one thread.

Any number of workers, on any number of hosts, share a sweep's studies. A worker that ends, however it ends, leaves
nothing that another one cannot take up: the job's name stands in the trial before the job is submitted, and the same
point has the same job, so whoever takes the trial up attaches to the job that runs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from optuna.exceptions import UpdateFinishedTrialError

from sweeps.space.objective import TrialOutcome
from sweeps.study.storage import Storage
from sweeps.workers.followed_trial import Followed
from sweeps.workers.heartbeat import Heartbeats
from sweeps.workers.runner import Runner
from sweeps.workers.trial_queue import Claim, Limits, NoTrial, Part, ask
from tracking.following.interruption import Interrupts
from training.contract.errors import InputError, QuotaError, TrainfareError
from training.services.launcher import stop_all

_TICK_SECONDS = 0.02
_FULL_SECONDS = 60.0
"""Until a job is tried again for which the service had no room."""
_LONGEST_PAUSE_SECONDS = 5.0
"""Until a worker asks again that got no trial."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """Why a worker has ended."""

    reason: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Likewise for the study of each compiler."""
    is_stopped: bool = False
    """A person stopped it: the sweep may have more to do."""


def run_worker(
    storage: Storage,
    sweep: str,
    parts: Sequence[Part],
    runner: Runner,
    limits: Limits,
    *,
    say: Callable[[str], None] = print,
) -> Done:
    """Run trials until nothing is left to start and nothing runs any more, here or at any other worker.

    A worker that has no trial to start stays while others' trials run: it takes up those of workers that die. Ctrl-C
    and SIGTERM ask this worker's jobs to stop; a second Ctrl-C leaves them running. An error that ends the worker
    leaves them running too, and says their names as a note.
    """
    with Heartbeats(storage.rdb) as heartbeats:
        worker = _Worker(storage, sweep, parts, runner, limits, heartbeats, say)
        try:
            with Interrupts(worker.stop) as interrupts:
                while not (done := worker.done(interrupts.stopping)):
                    if not worker.advance(interrupts):
                        time.sleep(_TICK_SECONDS)
            return done
        except TrainfareError as error:
            if names := worker.job_names:
                error.add_note(
                    f"Jobs that may still be running: {', '.join(names)}. The same command attaches to them."
                )
            raise
        finally:
            worker.close()


@dataclass(eq=False)
class _Worker:
    """The jobs that one worker follows."""

    storage: Storage
    sweep: str
    parts: Sequence[Part]
    runner: Runner
    limits: Limits
    heartbeats: Heartbeats
    say: Callable[[str], None]
    active: list[Followed] = field(default_factory=list)
    waiting: list[Claim] = field(default_factory=list)
    """Trials whose jobs the service has no room for now."""
    ask_at: float = 0.0
    """When to ask for a trial, monotonic clock, seconds."""
    start_at: float = 0.0
    """When to try those that wait again."""
    none: NoTrial | None = None
    """What was answered when this worker last asked."""

    def done(self, is_stopping: bool) -> Done | None:
        """Return why there is nothing left to do; None where there is."""
        if is_stopping:
            for claim in self.waiting:
                self._give_back(claim)
            self.waiting.clear()
            return None if self.active else Done(reason="stopped", is_stopped=True)
        if self.active or self.waiting or self.none is None or not self.none.is_over:
            return None
        return Done(reason=self.none.reason, reasons=self.none.reasons)

    def advance(self, interrupts: Interrupts) -> bool:
        """Start one job and look at one, where it is their turn; return False where it was no one's."""
        started = not interrupts.stopping and (self._start_waiting() or self._ask())
        if started and interrupts.stopping:  # asked between the submission and here
            self.stop()
        return self._look() or started

    def _ask(self) -> bool:
        if len(self.active) + len(self.waiting) >= self.limits.parallel or time.monotonic() < self.ask_at:
            return False
        call = self.storage.retries.call
        answer = call(ask, self.storage, self.sweep, self.parts, self.limits, self.runner.job_name, self.say)
        if isinstance(answer, NoTrial):
            self.none = None if answer.is_busy else answer
            self.ask_at = time.monotonic() + self._pause_seconds(answer)
            return False
        self.none = None
        self.heartbeats.trial_ids.add(answer.trial._trial_id)
        self._start(answer)
        return True

    def _pause_seconds(self, answer: NoTrial) -> float:
        interval_seconds = self.storage.rdb.get_heartbeat_interval() or 1
        longest = 0.04 if answer.is_busy else min(interval_seconds / 2, _LONGEST_PAUSE_SECONDS)
        return longest * random.uniform(0.5, 1.0)  # workers that began together must not ask together for ever

    def _start_waiting(self) -> bool:
        if not self.waiting or time.monotonic() < self.start_at:
            return False
        self._start(self.waiting.pop(0))
        return True

    def _start(self, claim: Claim) -> None:
        compiler, number = claim.part.compiler, claim.trial.number
        try:
            running = self.runner.start(compiler, claim.point, number)
        except (InputError, QuotaError) as error:
            if isinstance(error, QuotaError) and not error.is_final:
                self.say(f"  trial {number} of {compiler}: waits. {error}")
                self.waiting.append(claim)
                self.start_at = time.monotonic() + _FULL_SECONDS
                return
            self.say(f"  trial {number} of {compiler}: refused. {error}")
            self._tell(Followed(self.storage, claim, None), TrialOutcome(failure=("Refused", str(error))))
            return
        self.active.append(Followed(self.storage, claim, running))

    def _look(self) -> bool:
        """Look at the job whose turn it is; return False where no one's turn has come."""
        followed = min(self.active, key=lambda each: each.due, default=None)
        if followed is None or followed.due > time.monotonic():
            return False
        try:
            outcome = followed.look()
        except UpdateFinishedTrialError:
            self._let_go(followed)
            return True
        if outcome:
            self._tell(followed, outcome)
        return True

    def _tell(self, followed: Followed, outcome: TrialOutcome) -> None:
        try:
            end = followed.tell(outcome, self.runner)
            told = f" ({outcome.failure[1]})" if outcome.failure and not end.startswith("pruned") else ""
            self.say(f"  {followed.name}: {end}{told}")
        except UpdateFinishedTrialError:
            self._let_go(followed)
        self._forget(followed)
        self.ask_at = 0.0

    def _let_go(self, followed: Followed) -> None:
        """Leave a job to the worker that has taken its trial up."""
        self.say(f"  {followed.name}: another worker has taken it up, since this one was not heard of")
        self._forget(followed)

    def _forget(self, followed: Followed) -> None:
        followed.close()
        self.heartbeats.trial_ids.discard(followed.trial_id)
        if followed in self.active:
            self.active.remove(followed)

    def _give_back(self, claim: Claim) -> None:
        """Let a trial wait for another worker, or for the same command: its job was never started."""
        self.heartbeats.trial_ids.discard(claim.trial._trial_id)
        Followed(self.storage, claim, None).give_back()

    def stop(self) -> None:
        """Ask all jobs to stop. Raises the first error."""
        stop_all([followed.stop for followed in self.active])

    @property
    def job_names(self) -> list[str]:
        """Names of the jobs that this worker follows, or was about to start."""
        return [claim.job_name for claim in (*(followed.claim for followed in self.active), *self.waiting)]

    def close(self) -> None:
        """Leave all running."""
        for followed in self.active:
            followed.close()
