"""A group's jobs, from the first submission to the last record, in one loop of one thread.

What the tracking store holds decides what is left to do: a job whose run has ended is kept, one that runs is attached
to, one without a run is started. So the loop can be left at any moment and entered again.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlflow.entities import Run, RunStatus

from tracking.group import Group, child_runs
from tracking.interrupt import Interrupts
from tracking.listener import Listener
from tracking.plan import PlannedJob
from tracking.progress import Progress
from tracking.recorder import Recorder, open_run
from tracking.store import Store
from tracking.system import SystemSampler
from training import launcher, request
from training.errors import InputError, QuotaError
from training.events import FAILURE_CLASSES, Event
from training.launcher import Follower, Update
from training.services.protocol import Service

_TICK_SECONDS = 0.05
_FULL_SECONDS = 60.0
"""Until a job is tried again for which the account's quota had no room."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one job ended."""

    planned: PlannedJob
    run_id: str
    failure: tuple[str, str] | None
    """(class, reason), or None when it completed."""
    push_failure: str | None = None
    """Why its model was not pushed to the Hub, where it should have been."""
    refusal: InputError | QuotaError | None = None
    """What the service answered in place of starting it."""


class _Followed:
    """A job that runs, its recorder and what is sampled beside it."""

    def __init__(self, store: Store, service: Service, planned: PlannedJob, run_id: str, say: Callable[[str], None]):
        self.planned = planned
        self._recorder = Recorder(store, run_id, planned)
        self._progress = Progress(planned.run_name, say)
        body = request.build(planned.spec)
        self._recorder.open(body)
        self.job = launcher.submit(service, body)
        self._recorder.show_data()  # drawn while the job starts
        self._follower = Follower(self.job)
        self._look_at = 0.0
        self._listener = Listener(planned.script.regexes) if planned.script else None
        self._sampler = SystemSampler() if service.name == "local" else None

    def advance(self, followed: int) -> Outcome | None:
        """Record what is new; return the outcome once the job has ended and its log is read to the end.

        `followed` is how many jobs share the service's limit of looks.
        """
        if time.monotonic() < self._look_at:
            return None
        update = self._follower.look()
        share_seconds = followed / self.job.service.looks_per_second
        # Many that began together must not ask together for ever.
        self._look_at = time.monotonic() + max(self._follower.pause_seconds, share_seconds * random.uniform(0.8, 1.2))
        system = self._sampler.drain() if self._sampler else []
        if update and update.is_whole:
            self._begin_again()
        if update or system:
            lines, events = (update.lines, self._events(update)) if update else ((), ())
            self._recorder.record(lines, events, system)
            self._progress.show(events)
        return self._end() if self._follower.ended else None

    def _begin_again(self) -> None:
        """The whole log follows."""
        self._recorder.begin_again()
        if self.planned.script:
            self._listener = Listener(self.planned.script.regexes)

    def _events(self, update: Update) -> Sequence[Event]:
        return self._listener.listen(update.lines, update.times) if self._listener else update.events

    def _end(self) -> Outcome:
        self.close()
        recorder, description = self._recorder, self._follower.description
        assert description is not None
        failure = None
        if description["TrainingJobStatus"] == "Completed":
            if self._listener:
                recorder.record((), self._listener.result(description["TrainingEndTime"].timestamp()))
        else:
            failure = launcher.failure_of(description, recorder.events, recorder.lines[-50:])
        finals = recorder.finish(description, failure, self.job.service.log_location(self.job.name))
        self._progress.ended(finals, failure, recorder.compiler_doubt)
        return Outcome(
            planned=self.planned, run_id=recorder.run_id, failure=failure, push_failure=recorder.push_failure
        )

    def close(self) -> None:
        """Stop sampling."""
        if self._sampler:
            self._sampler.close()


def run_jobs(
    store: Store,
    service: Service,
    group: Group,
    planned: Sequence[PlannedJob],
    *,
    parallel: int = 1,
    say: Callable[[str], None] = print,
) -> list[Outcome]:
    """Run what is left of `planned`, at most `parallel` at a time, and return every outcome in the order planned.

    Jobs that a person stopped, and those not started for that reason, leave the list short.
    """
    runs = child_runs(store, group)
    outcomes = {name: kept for job in planned if (kept := _kept(job, runs.get(name := job.spec.name)))}
    waiting = deque(job for job in planned if job.spec.name not in outcomes)
    run_ids = {name: str(run.info.run_id) for name, run in runs.items()}
    active: dict[str, _Followed] = {}
    full_until = 0.0
    with Interrupts(lambda: _stop_all(active)) as interrupts:
        try:
            while active or (waiting and not interrupts.stopping):
                while waiting and len(active) < parallel and not interrupts.stopping and time.monotonic() >= full_until:
                    job = waiting.popleft()
                    if job.spec.name not in run_ids:
                        run_ids[job.spec.name] = open_run(store, group, job)
                    try:
                        active[job.spec.name] = _Followed(store, service, job, run_ids[job.spec.name], say)
                    except (QuotaError, InputError) as error:
                        if isinstance(error, InputError) or error.is_final:
                            outcomes[job.spec.name] = _refused(store, job, run_ids[job.spec.name], error, say)
                            continue
                        say(f"  {job.run_name}: waits. {error}")
                        waiting.appendleft(job)
                        full_until = time.monotonic() + _FULL_SECONDS
                        break
                    if interrupts.stopping:  # asked between the submission and the line above
                        active[job.spec.name].job.stop()
                for name, followed in list(active.items()):
                    if outcome := followed.advance(len(active)):
                        outcomes[name] = outcome
                        del active[name]
                time.sleep(_TICK_SECONDS)
        finally:
            for followed in active.values():
                followed.close()
    return [outcomes[job.spec.name] for job in planned if job.spec.name in outcomes]


def _refused(
    store: Store, job: PlannedJob, run_id: str, refusal: InputError | QuotaError, say: Callable[[str], None]
) -> Outcome:
    """End the run of a job that the service will never start: an open one would wait for it."""
    failure = "Refused", str(refusal)
    Recorder(store, run_id, job).refuse(failure)
    Progress(job.run_name, say).ended({}, failure)
    return Outcome(planned=job, run_id=run_id, failure=failure, refusal=refusal)


def _kept(job: PlannedJob, run: Run | None) -> Outcome | None:
    if run is None or not RunStatus.is_terminated(RunStatus.from_string(run.info.status)):
        return None
    tags = run.data.tags
    failure = None
    if run.info.status != "FINISHED":
        failure_class = tags.get("platform.failure_class", "Error")
        assert failure_class in FAILURE_CLASSES
        failure = failure_class, tags.get("platform.failure_message", "")
    push_failure = tags.get("platform.hub_failure")
    return Outcome(planned=job, run_id=run.info.run_id, failure=failure, push_failure=push_failure)


def _stop_all(active: dict[str, _Followed]) -> None:
    for followed in active.values():
        followed.job.stop()
