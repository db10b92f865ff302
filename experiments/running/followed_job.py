"""Record the events of one running job in its run, until the job has ended and its log is read to the end.

A job for which the service had no instances is started again, a few times and never twice at once. While it waits, its
service has nothing to stop. So a request to stop it is a tag of its run, which every launcher reads before and after it
starts an attempt."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tracking.budgets.ledger import Ledger, budget_failure, with_limit
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import JobRun, Outcome, Recorder, cost_of, is_stop_requested, missing_text
from tracking.recording.script_log import ScriptLogReader
from tracking.recording.system_metrics import SystemSampler
from tracking.server.store import Store
from training.contract import request
from training.contract.errors import InputError, JobNotFound, QuotaError, ServiceError
from training.contract.events import Event
from training.contract.failures import Failure, failure_of, lacks_capacity, service_failure
from training.contract.job_spec import SCRIPT_ARTIFACTS, short_name
from training.contract.plain_text import duration_text
from training.contract.price import instance_seconds
from training.contract.service import TERMINAL_STATUSES, Service, Wait, billed_so_far, end_of, wait_of
from training.job.tasks import LOSS, METRICS
from training.services.budget import NOTHING, Amount
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
    jobs_at_once: int = 1,
) -> FollowedJob | Outcome:
    """Reserve a part of the group's budget for a job, submit the job and follow it. `run` is its open run.

    `jobs_at_once` could start now and share what is left of the budget. Raises BudgetFull while the budget has no room,
    and QuotaError while the account has none. Return the outcome of a job that the service will never start: its run is
    ended, so that no later launcher waits for it.
    """
    if run.is_described:
        return FollowedJob(ledger.store, ledger.service, planned, run, echo)
    limit_seconds = ledger.limit_seconds(planned, run, jobs_at_once)
    followed = FollowedJob(ledger.store, ledger.service, planned, run, echo)
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
    ):
        """Follow the job of a run. If no launcher has submitted it, call `submit` before `advance`."""
        self.planned, self._store = planned, store
        self._recorder = Recorder(store, run.id, planned)
        seconds = instance_seconds(1.0, planned.spec.billed_instances)
        usd_per_second = planned.price.usd(seconds) if planned.price else None
        self._progress = JobProgress(planned.run_name, echo, usd_per_second=usd_per_second)
        self.job = Job(service, planned.spec.name)
        self._follower = self._new_follower()
        # Due immediately, in a random order: launchers that are killed early should not always read the same jobs.
        self.due = random.random()
        """Time of the next `advance`, in seconds of the monotonic clock."""
        self._attempt = 0
        """Number of the current attempt; the first is 0."""
        self._next_attempt: float | None = None
        """Time of the planned attempt, in seconds of the monotonic clock; None if none is planned."""
        self._is_stopped = False
        self._target = planned.script.target if planned.script else None
        self._is_at_target = False
        """True once a script reached the target at which it is to end."""
        self._script_log = _script_log(planned)
        self._sampler = SystemSampler(service, planned.spec.name)

    def submit(self, limit_seconds: int | None = None) -> None:
        """Start the job, and write what is known before its start. A budget may lower its time limit.

        Raises QuotaError or InputError if the service refuses the job.
        """
        spec = self.planned.spec
        if limit_seconds is not None and limit_seconds < spec.max_run_seconds:
            limits = f"from {spec.max_run_seconds:,} to {limit_seconds:,} s"
            self._progress.line(f"the budget lowers its time limit {limits}")
        body = request.build(with_limit(spec, limit_seconds or spec.max_run_seconds))
        self._recorder.open(body)
        submit(self.job.service, body)
        self._recorder.log_data()  # after the submission: the chart is drawn while the job starts

    def refuse(self, refusal: InputError | QuotaError) -> Outcome:
        failure = Failure("Refused", str(refusal))
        self._recorder.finish_refused(failure)
        self._progress.show_outcome({}, failure)
        return Outcome(planned=self.planned, run_id=self._recorder.run_id, failure=failure, refusal=refusal)

    @property
    def events(self) -> Iterable[Event]:
        return self._recorder.events

    @property
    def training_started(self) -> float | None:
        """Start of the billed time in seconds since the epoch; None while the job waits for its instance."""
        description = self._follower.description
        started = description.get("TrainingStartTime") if description else None
        return started.timestamp() if started else None

    @property
    def wait(self) -> Wait | None:
        description = self._follower.description
        if description and self.has_ended and self._follower.missing:
            return Wait(reason=missing_text(self._follower.missing), since=end_of(description))
        if description and self._next_attempt is not None:
            reason = f"instances, of which there were none ({self._position} follows)"
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
        """Cost until the latest look, never more than the final cost. On spot capacity it is a lower bound."""
        if (description := self._follower.description) is None:
            return NOTHING
        price = self.planned.price_on(description.get("ResourceConfig", {}).get("SelectedInstanceType"))
        seconds = billed_so_far(description, self._follower.described_at)
        billable = instance_seconds(seconds, self.planned.spec.billed_instances)
        return Amount(seconds=billable, usd=price.usd(billable) if price else None)

    def stop(self) -> None:
        """Ask the job to stop, and return immediately. A job that waits for its next attempt ends without it."""
        self._is_stopped = True
        if self._next_attempt is not None:
            self.due = time.monotonic()
        else:
            self.job.stop()

    def advance(self) -> Outcome | None:
        """Record new events. Return the outcome once the job has ended and its log is read to the end."""
        if self._next_attempt is not None:
            return self._try_again(self._next_attempt)
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
            self._stop_at_target(events)
        if not self._follower.ended:
            return None
        return None if self._waits_for_capacity() else self._end()

    def _stop_at_target(self, events: Iterable[Event]) -> None:
        """Stop a script that is to end at its target, once one of these new evaluations reaches it."""
        target, values = self._target, [event.fields.get("values", {}) for event in events if event.kind == "metric"]
        if target is None or not target.stops or self._is_at_target or not any(map(target.is_reached, values)):
            return
        self._is_at_target = True
        if not self.has_ended:
            self._progress.line(f"reached {target.metric} {target.value:g}, and is stopped")
            with suppress(JobNotFound):  # the next look reports the missing job
                self.job.stop()

    @property
    def _position(self) -> str:
        return f"attempt {self._attempt + 2} of {len(self.planned.spec.capacity_retry_minutes) + 1}"

    def _waits_for_capacity(self) -> bool:
        """Plan another attempt of a job that got no instances. Return False if it has ended for good."""
        description, minutes = self._follower.description, self.planned.spec.capacity_retry_minutes
        assert description is not None
        if not lacks_capacity(description) or self._attempt >= len(minutes):
            return False
        # The pause counts from the end of the failed attempt, which another launcher may have followed.
        ended = description["LastModifiedTime"].timestamp()
        pause_seconds = max(0.0, ended + 60 * minutes[self._attempt] - time.time())
        self.due = time.monotonic()
        self._next_attempt = self.due + pause_seconds
        self._look_for_stop()
        failure = service_failure(description)
        if failure and not self._is_stopped:
            self._progress.line(
                f"{failure.message.rstrip('.')}. It cost nothing, and starts again "
                f"in {duration_text(pause_seconds)} ({self._position})"
            )
            self._await_attempt(self._next_attempt)
        return True

    def _await_attempt(self, at: float) -> None:
        self._next_attempt, self.due = at, min(at, time.monotonic() + STOP_CHECK_SECONDS)

    def _look_for_stop(self) -> None:
        """Read whether somebody asked to stop the job, or ended it, from another machine."""
        self._is_stopped = self._is_stopped or is_stop_requested(self._store, self._recorder.run_id)

    def _try_again(self, planned_at: float) -> Outcome | None:
        """Submit the planned attempt when it is due. Return the outcome if the service refuses it.

        A job that is to stop starts no further attempt. Return its outcome, unless another launcher has started one.
        """
        failed, spec, service = self._follower.description, self.planned.spec, self.job.service
        assert failed is not None
        job = Job(service, attempt_name(spec.name, self._attempt + 1))
        self._look_for_stop()
        if self._is_stopped:
            try:
                job.describe()
            except JobNotFound:
                return self._end()
        elif time.monotonic() < planned_at:
            self._await_attempt(planned_at)
            return None
        else:
            limited = with_limit(spec, int(failed["StoppingCondition"]["MaxRuntimeInSeconds"]))
            try:
                submit(service, request.build(limited.model_copy(update={"name": job.name})))
            except QuotaError as error:
                self._await_attempt(time.monotonic() + QUOTA_PAUSE_SECONDS)
                return self._end() if error.is_final else None
            except InputError:
                return self._end()
            # A request that came meanwhile may have been too early to find the attempt at the service.
            self._look_for_stop()
        if self._is_stopped:
            job.stop()
        self.job, self._attempt, self._next_attempt = job, self._attempt + 1, None
        self._recorder.log_attempt(job.name, self._attempt)
        self._follower = self._new_follower()
        return None

    def _new_follower(self) -> Follower:
        return Follower(self.job, emits_events=self.planned.script is None)

    def _events(self, update: Update) -> Sequence[Event]:
        if self._script_log is None:
            return update.events
        stopped_before = self._script_log.stopped_expressions
        events = self._script_log.read(update.lines, update.times)
        for name in self._script_log.stopped_expressions[len(stopped_before) :]:
            self._progress.line(f"the expression of metric '{name}' is too slow and is no longer used")
        return events

    def _end(self) -> Outcome:
        self.close()
        recorder, description = self._recorder, self._follower.description
        assert description is not None
        failure = None
        is_at_target = self._is_at_target and description["SecondaryStatus"] == "Stopped"
        if description["TrainingJobStatus"] == "Completed" or is_at_target:
            if self._script_log:
                events = self._script_log.result(end_of(description).timestamp())
                recorder.record((), events)
                self._progress.show(events)
        else:
            log_location = self.job.service.log_location(self.job.name)
            failure = failure_of(description, recorder.events, recorder.log.tail(), log_location)
            failure = budget_failure(failure, description, self.planned)
            if self._is_stopped and failure.failure_class == "Capacity":
                failure = Failure("Stopped", "it was stopped while it waited for instances")
        missing = self._follower.missing
        if recorder.has_artifacts:
            self._log_artifacts()
        finals = recorder.finish(description, failure, missing)
        self._progress.show_outcome(finals, failure, recorder.compiler_warning, missing_text(missing))
        if failure and not failure.is_stop:
            self._progress.show_log(failure, self.job.name)
        return Outcome(
            planned=self.planned,
            run_id=recorder.run_id,
            failure=failure,
            cost=self.cost_so_far if "billing" in missing else cost_of(finals),
            death=recorder.death,
        )

    def _log_artifacts(self) -> None:
        try:
            archive = self.job.service.fetch_output(self.job.name, SCRIPT_ARTIFACTS)
            if archive is not None:
                self._recorder.log_artifacts(archive)
        except (ServiceError, OSError) as error:
            self._progress.line(f"the artifacts that the script logged were not recorded: {error}")

    def close(self) -> None:
        """Stop sampling system metrics. The job keeps running."""
        self._sampler.close()


def _script_log(planned: PlannedJob) -> ScriptLogReader | None:
    """Return the reader of a script's log; None for our own job, which emits events."""
    script = planned.script
    target = script.target.metric if script and script.target else None
    return ScriptLogReader(script.regexes, script.samples_per_step, script.higher_is_better, target) if script else None


def attempt_name(job_name: str, attempt: int) -> str:
    """Return the service's name of a job's attempt. The first attempt, number 0, has the job's own name instead.

    The name follows from the job's name alone, and a service accepts each name once. So all launchers of a job start
    the same attempt, and none runs twice. An attempt without an instance costs nothing, so the part of a budget that is
    reserved for the job suffices for the attempt that runs.
    """
    return short_name(job_name, f"-c{attempt}")


_QUIET_SECONDS = 10.0
"""Shortest time between two lines that report a step."""

_TRACEBACK_LINES = 40
"""Number of lines shown of a traceback: the last ones, which contain the error itself."""


def _calibration_line(event: Event) -> str:
    """Return a line with the measurements of one batch size. The event's step is the batch size."""
    values = event.fields["values"]
    if not values["calibration/fits"]:
        return f"batch {event.fields['step']}: does not fit in memory"
    figures = (
        ("calibration/step_seconds", "{:.3g} s a step"),
        ("calibration/samples_per_second", "{:,.1f} samples/s"),
        ("calibration/peak_memory_gib", "{:.2f} GiB"),
    )
    measured = ", ".join(form.format(values[name]) for name, form in figures if name in values)
    return f"batch {event.fields['step']}: {measured}"


class JobProgress:
    """Progress of one job, printed through `echo`."""

    def __init__(self, name: str, echo: Callable[[str], None], usd_per_second: float | None = None) -> None:
        """`usd_per_second` is the price of all instances of the job together, if it is known."""
        self._name, self._echo, self._usd_per_second = name, echo, usd_per_second
        self._printed_at = time.monotonic()

    def show(self, events: Iterable[Event]) -> None:
        """Print new events. Steps are printed at most every `_QUIET_SECONDS`."""
        for event in events:
            if event.kind == "start":
                device = event.fields.get("device", {})
                samples = event.fields.get("samples", {})
                self.line(f"started on {device.get('name', '?')}, {samples.get('train', '?')} training samples")
            elif event.kind == "phase" and event.fields.get("phase") == "compile":
                self.line(f"compiled in {event.fields.get('seconds', 0):.1f} s")
            elif event.kind == "note":
                self.line(str(event.fields.get("message", "")))
            elif event.kind == "metric" and "projected/seconds" in event.fields.get("values", {}):
                self.line(self._projected(event))
            elif event.kind == "metric" and "calibration/fits" in event.fields.get("values", {}):
                self.line(_calibration_line(event))
            elif event.kind == "metric" and time.monotonic() - self._printed_at >= _QUIET_SECONDS:
                values = event.fields.get("values", {})
                losses = ", ".join(f"{name} {values[name]:.4g}" for name in ("loss", "eval_loss") if name in values)
                samples = f"{event.fields['samples']:.0f} samples" if "samples" in event.fields else ""
                self.line(", ".join(filter(None, (f"step {event.fields.get('step')}", samples, losses))))

    def show_outcome(
        self,
        metrics: Mapping[str, float],
        failure: Failure | None,
        compiler_warning: str | None = None,
        missing: str = "",
    ) -> None:
        """Print the main figures, or the failure, of a job that has ended, and what is `missing`."""
        if missing:
            self.line(f"{missing} had not arrived when this command stopped waiting")
        if failure and failure.is_stop:
            seconds = metrics.get("cost/billable_seconds", 0.0)
            without_seconds = "stopped" if missing else "stopped before it started"
            self.line(f"stopped after {seconds:.1f} billable seconds" if seconds else without_seconds)
            return
        if failure:
            # Only the last line of a traceback is printed; the run contains the whole traceback.
            self.line(f"failed: {failure.text}")
            return
        figures = (
            ("projected/billable_seconds", "{:,.0f} s billable projected"),
            ("calibration/largest_batch_size", "batches up to {:.0f} fit"),
            ("throughput/steady_samples_per_second", "{:.1f} samples/s steady"),
            ("cost/billable_seconds", "{:.1f} s billable"),
            # A script may log a score in another unit.
            *((each.name, f"{each.label} {{:.4g}}") for each in METRICS if each != LOSS),
        )
        self.line(", ".join(form.format(metrics[name]) for name, form in figures if name in metrics) or "completed")
        if compiler_warning:
            self.line(compiler_warning)

    def show_log(self, failure: Failure, job_name: str) -> None:
        for line in failure.traceback.splitlines()[-_TRACEBACK_LINES:]:
            self._echo(f"    {line}")
        self.line(f"job {job_name}, log: {failure.log_location}")

    def _projected(self, event: Event) -> str:
        seconds, low, high = (event.fields["values"][f"projected/seconds{bound}"] for bound in ("", "_low", "_high"))
        usd = f", {seconds * self._usd_per_second:.2f} USD" if self._usd_per_second else ""
        return (
            f"after {event.fields.get('samples', 0):.0f} samples: the whole training would take {seconds:,.0f} s "
            f"(by its steps, {low:,.0f} to {high:,.0f}){usd} without its evaluations and checkpoints to come"
        )

    def line(self, text: str) -> None:
        self._printed_at = time.monotonic()
        self._echo(f"  {self._name}: {text}")
