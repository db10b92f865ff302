"""Record the events of one running job in its run, until the job has ended and its log is read to the end.

A job for which the service had no instances is started again, a few times and never twice at once. While it waits, its
service has nothing to stop. So a request to stop it is a tag of its run, which every launcher reads before and after it
starts an attempt. A request counts for good, also for a command that attaches later.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Sequence

from experiments.running.job_progress import JobProgress
from tracking.budgets.ledger import Ledger
from tracking.budgets.reserving import budget_failure, with_limit
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import JobRun, Outcome, Recorder, cost_of, is_stop_requested, missing_text
from tracking.recording.run_artifacts import ClassCharts
from tracking.recording.script_log import ScriptLogReader
from tracking.recording.system_metrics import SystemSampler
from tracking.server.store import Store
from training.contract import request
from training.contract.errors import InputError, JobNotFound, QuotaError
from training.contract.events import Event
from training.contract.failures import Failure, failure_of, lacks_capacity, service_failure
from training.contract.job_spec import JobSpec
from training.contract.plain_text import duration_text
from training.contract.price import instance_seconds
from training.contract.service import TERMINAL_STATUSES, Description, Service, Wait, end_of, wait_of
from training.services.budget import Amount
from training.services.launcher import Follower, Job, Update, submit

QUOTA_PAUSE_SECONDS = 60.0
"""Pause before the next attempt, after the account's quota had no room for it."""
STOP_CHECK_SECONDS = 15.0
"""Pause between two looks for a request to stop a job that waits for its next attempt."""


def start_job(
    ledger: Ledger,
    planned: PlannedJob,
    run: JobRun,
    echo: Callable[[str], None],
    charts: ClassCharts | None = None,
    jobs_at_once: int = 1,
) -> FollowedJob | Outcome:
    """Reserve a part of the group's budget for a job, submit the job and follow it. `run` is its open run.

    `jobs_at_once` could start now and share what is left of the budget. Raises BudgetFull while the budget has no room,
    and QuotaError while the account has none. Return the outcome of a job that the service will never start: its run is
    ended, so that no later launcher waits for it.
    """
    if run.is_described:
        return FollowedJob(ledger.store, ledger.service, planned, run, echo, charts)
    limit_seconds = ledger.limit_seconds(planned, run, jobs_at_once)
    followed = FollowedJob(ledger.store, ledger.service, planned, run, echo, charts)
    try:
        followed.submit(limit_seconds)
    except (QuotaError, InputError) as error:
        if isinstance(error, QuotaError) and not error.is_final:
            raise
        return followed.refuse(error)
    return followed


class FollowedJob:
    """A job, its recorder and the sampler of system metrics."""

    def __init__(
        self,
        store: Store,
        service: Service,
        planned: PlannedJob,
        run: JobRun,
        echo: Callable[[str], None],
        charts: ClassCharts | None = None,
    ):
        """Follow the job of a run. If no launcher has submitted it, call `submit` before `advance`."""
        self.planned, self._store = planned, store
        self._recorder = Recorder(store, run.id, planned, charts)
        seconds = instance_seconds(1.0, planned.spec.instance_count)
        usd_per_second = planned.price.usd(seconds) if planned.price else None
        self._progress = JobProgress(planned.run_name, echo, usd_per_second=usd_per_second)
        self.job = Job(service, planned.spec.name)
        self._follower = self._new_follower()
        # Due immediately, in a random order: launchers that are killed early should not always read the same jobs.
        self.due = random.random()
        """Time of the next `advance`, in seconds of the monotonic clock."""
        self._attempts = Attempts(planned.spec, service)
        self._next_attempt = 0.0
        """Time of the next attempt, in seconds of the monotonic clock."""
        self._is_stopped = False
        self._script_log = _script_log(planned)
        self._sampler = SystemSampler(service, planned.spec.name)

    def submit(self, limit_seconds: int | None = None) -> None:
        """Start the job, and write what is known before its start. A budget may lower its time limit.

        Raises QuotaError or InputError if the service refuses the job.
        """
        spec = self.planned.spec
        if limit_seconds is not None and limit_seconds < spec.max_run_seconds:
            limits = f"from {spec.max_run_seconds:,} to {limit_seconds:,} s"
            self._progress.show_warning(f"the budget lowers its time limit {limits}")
        body = request.build(with_limit(spec, limit_seconds or spec.max_run_seconds))
        self._recorder.open(body)
        submit(self.job.service, body)
        self._recorder.log_data()  # after the submission: the chart is drawn while the job starts

    def refuse(self, refusal: InputError | QuotaError) -> Outcome:
        """End the run of a job that the service refused to start."""
        failure = Failure("Refused", str(refusal))
        self._recorder.finish_refused(failure)
        self._progress.show_outcome({}, failure)
        return Outcome(planned=self.planned, run_id=self._recorder.run_id, failure=failure, refusal=refusal)

    @property
    def events(self) -> Iterable[Event]:
        """Events of the job so far."""
        return self._recorder.events

    @property
    def training_started(self) -> float | None:
        """Start of the billed time in seconds since the epoch; None while the job waits for its instance."""
        started = (self._follower.description or {}).get("TrainingStartTime")
        return started.timestamp() if started else None

    @property
    def wait(self) -> Wait | None:
        """Wait of the job before it trains; None if it does not wait."""
        description = self._follower.description
        if description and self.has_ended and self._follower.missing:
            return Wait(reason=missing_text(self._follower.missing), since=end_of(description))
        if description and self._attempts.is_waiting:
            reason = f"instances, of which there were none ({self._attempts.position} follows)"
            return Wait(reason=reason, since=description["LastModifiedTime"])
        return wait_of(description) if description else None

    @property
    def has_ended(self) -> bool:
        """True if the job has ended for good at its service, while its log and its billed seconds may still arrive."""
        description = self._follower.description
        return (
            description is not None
            and description["TrainingJobStatus"] in TERMINAL_STATUSES
            and not lacks_capacity(description)
        )

    @property
    def is_late(self) -> bool:
        """True if the job has ended for good, and its records take longer than usual."""
        return self.has_ended and self._follower.is_late

    @property
    def cost_so_far(self) -> Amount:
        """Cost until now. On spot capacity it is an upper bound."""
        started, spec, price = self.training_started, self.planned.spec, self.planned.dearest_price
        until = end_of(self._follower.description or {}).timestamp() if self.has_ended else time.time()
        billable = instance_seconds(max(0.0, until - started) if started else 0.0, spec.instance_count)
        return Amount(seconds=billable, usd=price.usd(billable) if price else None)

    def stop(self) -> None:
        """Ask the job to stop, and return immediately. A job that waits for its next attempt ends without it."""
        self._is_stopped = True
        if self._attempts.is_waiting:
            self.due = time.monotonic()
        else:
            self.job.stop()

    def advance(self) -> Outcome | None:
        """Record new events. Return the outcome once the job has ended and its log is read to the end."""
        if self._attempts.is_waiting:
            return self._try_again()
        update = self._follower.look()
        # The random factor spreads out jobs that started together.
        self.due = time.monotonic() + self._follower.pause_seconds * random.uniform(0.9, 1.1)
        system = self._sampler.drain()
        if update and update.is_whole:  # the service sends the log again from its start
            self._recorder.restart()
            self._script_log = _script_log(self.planned)
        if update or system:
            lines, events = (update.lines, self._events(update)) if update else ((), ())
            self._recorder.record(lines, events, system)
            self._progress.show(events)
        self._progress.show_disk((self._follower.description or {}).get("DiskWarning", ""))
        if not self._follower.ended:
            return None
        return None if self._waits_for_capacity() else self._end()

    def _waits_for_capacity(self) -> bool:
        """Plan another attempt of a job that got no instances. Return False if it has ended for good."""
        description = self._follower.description
        assert description is not None
        pause_seconds = self._attempts.plan(description, time.time())
        if pause_seconds is None:
            return False
        self.due = time.monotonic()
        self._next_attempt = self.due + pause_seconds
        self._look_for_stop()
        failure = service_failure(description)
        if failure and not self._is_stopped:
            self._progress.show_warning(
                f"{failure.message.rstrip('.')}. It cost nothing, and starts again "
                f"in {duration_text(pause_seconds)} ({self._attempts.position})"
            )
            self._await_attempt()
        return True

    def _await_attempt(self) -> None:
        self.due = min(self._next_attempt, time.monotonic() + STOP_CHECK_SECONDS)

    def _look_for_stop(self) -> None:
        """Read whether somebody asked to stop the job, or ended it, from another machine."""
        self._is_stopped = self._is_stopped or is_stop_requested(self._store, self._recorder.run_id)

    def _try_again(self) -> Outcome | None:
        """Submit the planned attempt when it is due. Return the outcome if the service refuses it.

        A job that is to stop starts no further attempt. Return its outcome, unless another launcher has started one.
        """
        assert self._follower.description is not None
        self._look_for_stop()
        if self._is_stopped:
            existing = self._attempts.existing()
            if existing is None:
                return self._end()
            self._follow_attempt(existing)
            return None
        if time.monotonic() < self._next_attempt:
            self._await_attempt()
            return None
        try:
            job = self._attempts.start(self._follower.description)
        except QuotaError as error:
            self._next_attempt = time.monotonic() + QUOTA_PAUSE_SECONDS
            self._await_attempt()
            return self._end() if error.is_final else None
        except InputError:
            return self._end()
        # A request that came meanwhile may have been too early to find the attempt at the service.
        self._look_for_stop()
        self._follow_attempt(job)
        return None

    def _follow_attempt(self, job: Job) -> None:
        if self._is_stopped:
            job.stop()
        self.job = job
        self._recorder.log_attempt(job.name, self._attempts.number)
        self._follower = self._new_follower()

    def _new_follower(self) -> Follower:
        return Follower(self.job, exists=True, emits_events=self.planned.script is None)

    def _events(self, update: Update) -> Sequence[Event]:
        if self._script_log is None:
            return update.events
        stopped_before = self._script_log.stopped_expressions
        events = self._script_log.read(update.lines, update.times)
        for name in self._script_log.stopped_expressions[len(stopped_before) :]:
            self._progress.show_warning(f"the expression of metric '{name}' is too slow and is no longer used")
        return events

    def _end(self) -> Outcome:
        self.close()
        recorder, description = self._recorder, self._follower.description
        assert description is not None
        failure = None
        if description["TrainingJobStatus"] == "Completed":
            if self._script_log:
                recorder.record((), self._script_log.result(end_of(description).timestamp()))
        else:
            log_location = self.job.service.log_location(self.job.name)
            failure = failure_of(description, recorder.events, recorder.log.tail(), log_location)
            failure = budget_failure(failure, description, self.planned)
            if self._is_stopped and failure.failure_class == "Capacity":
                failure = Failure("Stopped", "it was stopped while it waited for instances")
        missing = self._follower.missing
        finals = recorder.finish(description, failure, missing)
        self._progress.show_outcome(finals, failure, recorder.compiler_warning, missing_text(missing))
        if lost := description.get("ModelFailure"):
            self._progress.show_warning(lost)
        if failure and not failure.is_stop:
            self._progress.show_log(failure, self.job.name)
        return Outcome(
            planned=self.planned,
            run_id=recorder.run_id,
            failure=failure,
            cost=self.cost_so_far if "billing" in missing else cost_of(finals),
            death=recorder.death,
        )

    def close(self) -> None:
        """Stop sampling system metrics. The job keeps running."""
        self._sampler.close()


def _script_log(planned: PlannedJob) -> ScriptLogReader | None:
    """Return the reader of a script's log; None for our own job, which emits events."""
    return ScriptLogReader(planned.script.regexes, planned.script.batch) if planned.script else None


class Attempts:
    """The attempts of one job.

    It keeps no state that another launcher would need: the first attempt has the job's name, each failed attempt is
    followed by the next, and names follow from the job's name. A launcher that attaches later reads the failed attempts
    and ends at the one that runs. An attempt without an instance costs nothing, so the part of a budget that is
    reserved for the job suffices for the attempt that runs.
    """

    def __init__(self, spec: JobSpec, service: Service) -> None:
        self._spec, self._service = spec, service
        self.number = 0
        """Number of the current attempt; the first is 0."""
        self.is_waiting = False
        """True while the next attempt is planned and not submitted."""

    @property
    def position(self) -> str:
        """Number of the next attempt and of all, such as `attempt 2 of 4`."""
        return f"attempt {self.number + 2} of {len(self._spec.capacity_retry_minutes) + 1}"

    def plan(self, description: Description, now: float) -> float | None:
        """Return the seconds until the next attempt of a job with this final description; None if it has none.

        The pause counts from the end of the failed attempt, which another launcher may have followed. `now` is in
        seconds since the epoch.
        """
        minutes = self._spec.capacity_retry_minutes
        if not lacks_capacity(description) or self.number >= len(minutes):
            return None
        self.is_waiting = True
        ended = description["LastModifiedTime"].timestamp()
        return float(max(0.0, ended + 60 * minutes[self.number] - now))

    def start(self, failed: Description) -> Job:
        """Submit the next attempt, or attach to it. It has the time limit of the failed one.

        Raises QuotaError or InputError if the service refuses it.
        """
        limited = with_limit(self._spec, int(failed["StoppingCondition"]["MaxRuntimeInSeconds"]))
        spec = limited.model_copy(update={"name": self._next_name})
        return self._started(submit(self._service, request.build(spec)))

    def existing(self) -> Job | None:
        """Return the next attempt if a launcher has submitted it, or None. Submits nothing."""
        job = Job(self._service, self._next_name)
        try:
            job.describe()
        except JobNotFound:
            return None
        return self._started(job)

    @property
    def _next_name(self) -> str:
        return attempt_name(self._spec.name, self.number + 1)

    def _started(self, job: Job) -> Job:
        self.number += 1
        self.is_waiting = False
        return job


MAX_NAME_CHARACTERS = 63
"""Longest name of a job: `training.contract.job_spec.JOB_NAME_PATTERN`."""
_DIGEST_CHARACTERS = 8


def attempt_name(job_name: str, attempt: int) -> str:
    """Return the service's name of a job's attempt; the first attempt, number 0, has the job's own name.

    The name follows from the job's name alone, and a service accepts each name once. So all launchers of a job start
    the same attempt, and none runs twice.
    """
    if attempt == 0:
        return job_name
    suffix = f"-c{attempt}"
    if len(job_name) + len(suffix) <= MAX_NAME_CHARACTERS:
        return job_name + suffix
    digest = hashlib.sha256(job_name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    start = job_name[: MAX_NAME_CHARACTERS - len(suffix) - len(digest) - 1].rstrip("-")
    return f"{start}-{digest}{suffix}"
