"""One job of a group while it runs: what it says becomes its run, until it has ended and its log is read out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracking.following.progress import Progress
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import OpenRun, Recorder
from tracking.recording.run_tables import ClassCharts
from tracking.recording.script_log import Listener
from tracking.recording.system_metrics import SystemSampler
from tracking.server.store import Store
from training.contract import request
from training.contract.errors import InputError, QuotaError
from training.contract.events import Event
from training.contract.price import instance_seconds
from training.contract.service import Service
from training.services import launcher
from training.services.launcher import Follower, Job, Update


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


class Followed:
    """A job that runs, its recorder and what is sampled beside it."""

    def __init__(
        self,
        store: Store,
        service: Service,
        planned: PlannedJob,
        run: OpenRun,
        say: Callable[[str], None],
        charts: ClassCharts | None = None,
    ):
        self.planned = planned
        self._recorder = Recorder(store, run.id, planned, charts)
        self._progress = Progress(planned.run_name, say, usd_per_second=_usd_per_second(planned))
        self.job = Job(service, planned.spec.name)
        if not run.is_described:
            body = request.build(planned.spec)
            self._recorder.open(body)
            launcher.submit(service, body)
            self._recorder.show_data()  # drawn while the job starts
        self._follower = Follower(self.job, exists=True)
        # Due at once, in an order that is drawn: a launcher that never lives long sees others than the one before.
        self.due = random.random()
        """When to look again, monotonic clock, seconds."""
        self._listener = Listener(planned.script.regexes) if planned.script else None
        self._sampler = SystemSampler() if service.name == "local" else None

    @property
    def events(self) -> Sequence[Event]:
        """What the job has told so far."""
        return self._recorder.events

    @property
    def training_started(self) -> float | None:
        """When the job began to be billed, seconds since the epoch; None of one that waits for its machine."""
        started = (self._follower.description or {}).get("TrainingStartTime")
        return started.timestamp() if started else None

    def advance(self) -> Outcome | None:
        """Record what is new; return the outcome once the job has ended and its log is read to the end."""
        update = self._follower.look()
        # Many that began together must not ask together for ever.
        self.due = time.monotonic() + self._follower.pause_seconds * random.uniform(0.9, 1.1)
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
        log_location = self.job.service.log_location(self.job.name)
        finals = recorder.finish(description, failure, log_location)
        self._progress.ended(finals, failure, recorder.compiler_doubt)
        if failure:
            self._progress.tell_log(recorder.lines, self.job.name, log_location)
        return Outcome(
            planned=self.planned, run_id=recorder.run_id, failure=failure, push_failure=recorder.push_failure
        )

    def close(self) -> None:
        """Stop sampling."""
        if self._sampler:
            self._sampler.close()


def refused(
    store: Store, planned: PlannedJob, run_id: str, refusal: InputError | QuotaError, say: Callable[[str], None]
) -> Outcome:
    """End the run of a job that the service will never start: an open one would wait for it."""
    failure = "Refused", str(refusal)
    Recorder(store, run_id, planned).refuse(failure)
    Progress(planned.run_name, say, usd_per_second=_usd_per_second(planned)).ended({}, failure)
    return Outcome(planned=planned, run_id=run_id, failure=failure, refusal=refusal)


def _usd_per_second(planned: PlannedJob) -> float | None:
    return planned.price.usd(instance_seconds(1.0, planned.spec.instance_count)) if planned.price else None
