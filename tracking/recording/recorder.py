"""Write everything that a job reports to its MLflow run, while the job runs and afterwards.

The recorder never calls the job, and the job never waits for the recorder. After a launcher died or a server was
unavailable, the job's log can be read again: only missing points are added."""

from __future__ import annotations

import io
import json
import math
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from judging.deterministic_failures import MOMENTS, Death, Moment
from judging.disturbance import disturbances
from tracking.groups.group import Group, Subject, child_runs, find_or_open, launch_lock, search_runs
from tracking.groups.planned_job import IMPORTED, PlannedJob
from tracking.queries.job_tables import (
    ARM,
    DETAILS,
    PENDING,
    VERDICT,
    counted_run,
    details_tag,
    has_ended,
    runs_where,
    tagged,
    tags_of,
)
from tracking.recording.metrics import (
    MACHINE_FIELDS,
    SERVICE_NAME,
    Deduplicator,
    final_metrics,
    final_points,
    hyperparameters,
    pool_tags,
    target_metrics,
)
from tracking.recording.run_artifacts import (
    DATA_FILE,
    cache_state,
    class_rows,
    data_markdown,
    dataset_input,
    environment,
    job_note,
    log_tables,
    start_event,
)
from tracking.server.store import Store
from training.contract.errors import InputError, QuotaError
from training.contract.events import Event
from training.contract.failures import Failure, last_exception, repair_last_traceback
from training.contract.job_spec import SCRIPT_ARTIFACTS
from training.contract.plain_text import without_markup
from training.contract.price import InstanceSeconds
from training.contract.service import Description, Request, end_of
from training.services.artifact import unpack
from training.services.budget import NOTHING, Amount
from training.services.registry import service_name

DISTURBED = "platform.disturbed"
"""Tag of a job's run: why its measurement was disturbed, or `no`."""
RATE_UNKNOWN = "platform.rate_unknown"
"""Tag of the run of a script whose steady samples/s are not known: the reason, see `script_log.RateUnknown`."""
NOT_COUNTABLE = "platform.not_countable"
"""Tag with what the meter of a script could not count, and why."""
MISSING = "platform.missing"
"""Tag of the run of a job at SageMaker: records that had not arrived when its run ended (`log`, `billing`), or `no`."""
CAPACITY_RETRIES = "platform.capacity_retries"
"""Tag of the run of a job that got no instances at first: the number of further attempts."""
EXCEPTION, MOMENT = "platform.exception", "platform.exception_moment"
DESCRIBED = "platform.described"
"""Tag of a run whose job was submitted."""
STOP_REQUESTED = "platform.stop_requested"
"""Tag of a job's run: the time in UTC at which somebody asked to stop the job."""
_BATCH_METRICS = 1000
_BATCH_PARAMS = 100
"""Limits of MLflow for one `log_batch` call."""


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """Run of a job."""

    id: str
    arm: str = ""
    is_described: bool = False
    """True if the job was submitted and everything known before its start is written."""
    has_ended: bool = False
    is_incomplete: bool = False
    """True if records of an ended job are missing; `attach` reads them if they have arrived."""
    failure: Failure | None = None
    death: Death | None = None
    """Exception of which the job died."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Last value of each metric."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one job."""

    planned: PlannedJob
    run_id: str
    failure: Failure | None
    """None if the job completed."""
    death: Death | None = None
    """Exception of which the job died."""
    refusal: InputError | QuotaError | None = None
    """Error with which the service refused to start the job."""
    cost: Amount = NOTHING


def recorded_outcome(planned: PlannedJob, run: JobRun) -> Outcome:
    return Outcome(planned=planned, run_id=run.id, failure=run.failure, death=run.death, cost=cost_of(run.metrics))


def cost_of(metrics: Mapping[str, float]) -> Amount:
    return Amount(
        seconds=InstanceSeconds(metrics.get("cost/billable_instance_seconds", 0.0)), usd=metrics.get("cost/usd")
    )


def open_run(store: Store, group: Group, planned: PlannedJob) -> JobRun:
    """Return the job's run under its group, or open it. A job has one run, however many launchers follow the group."""
    spec = planned.spec
    if planned.script:
        details = {"platform.measured": "outside", "platform.cache_state": cache_state(planned)}
    else:  # the job reports the precision that it uses as `hp.precision`
        requested = spec.hyperparameters.get("precision")
        details = {} if requested is None else {"platform.requested_precision": str(requested)}
    details |= {
        "platform.repeat": str(planned.repeat),
        "platform.service": service_name(spec.instance_type),
        "platform.image": spec.image,
        "platform.data_key": planned.data_key,
        "platform.evaluation_key": planned.data.evaluation_key,
        "platform.rows_key": planned.data.rows_key,
    }
    tags = {
        MLFLOW_PARENT_RUN_ID: group.run_id,
        MLFLOW_RUN_NAME: planned.run_name,
        ARM: planned.arm,
        **({VERDICT: PENDING} if group.verb in ("compare", "sweep") else {}),
        "platform.compiler": spec.compiler,
        "platform.instance_type": spec.instance_type,
        "platform.kind": "job",
        "platform.group": group.id,
        **({"platform.baseline": "true"} if planned.is_baseline else {}),
        "platform.job_name": spec.name,
        **details_tag({name: text for name, text in details.items() if text}),
        **planned.tags,
    }
    identity = {name: tags[name] for name in ("platform.group", "platform.job_name")}
    # MLflow's table of runs shows the group's run alone, until it is expanded.
    store.call(store.client.log_inputs, group.run_id, [dataset_input(planned.data, planned.data_key)])
    with launch_lock():
        return job_run(find_or_open(store, Subject(group.experiment_id, identity, tags)))


def job_run(run: Run) -> JobRun:
    """Return the state of a run, which any launcher may have opened."""
    tags, is_ended = tags_of(run), has_ended(run)
    failure = Failure(tags.get("platform.failure_class", "Error"), tags.get("platform.failure_message", ""))
    return JobRun(
        id=str(run.info.run_id),
        arm=tags.get(ARM, ""),
        is_described=DESCRIBED in tags,
        has_ended=is_ended,
        is_incomplete=tags.get(MISSING, "no") != "no",
        failure=failure if is_ended and run.info.status != "FINISHED" else None,
        death=recorded_death(tags),
        metrics=dict(run.data.metrics),
    )


def find_job_run(store: Store, group: Group, job_name: str) -> JobRun | None:
    """Return the run of one of a group's jobs, or None if the job was never started."""
    runs = search_runs(store, group.experiment_id, tagged(kind="job", group=group.id, job_name=job_name))
    return job_run(counted_run(runs)) if runs else None


def job_runs(store: Store, group: Group) -> dict[str, JobRun]:
    return {name: job_run(run) for name, run in child_runs(store, group).items()}


def request_stop(store: Store, *, group: str | None = None, job_name: str | None = None) -> Sequence[str]:
    """Record the request in the open runs of a group's jobs or of one job. Return the names of their last attempts.

    It counts for good, also for a command that attaches later. Jobs that were never submitted are left out: a command
    that follows the group starts them. So are imported jobs, which trainfare does not start. `job_name` may also be the
    name of a further attempt.
    """
    selections = [{"group": group}] if group else [{"job_name": str(job_name)}, {"service_name": str(job_name)}]
    queries = [f"{tagged(kind='job', **tags)} and attributes.status = 'RUNNING'" for tags in selections]
    open_runs = [run for query in queries for run in store.call(runs_where, store.client, query)]
    runs = [run for run in open_runs if DESCRIBED in run.data.tags and run.data.tags.get("platform.role") != IMPORTED]
    for run in runs:
        store.tag(run.info.run_id, {STOP_REQUESTED: f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"})
    return [str(run.data.tags.get(SERVICE_NAME) or run.data.tags["platform.job_name"]) for run in runs]


def is_stop_requested(store: Store, run_id: str) -> bool:
    """Return whether somebody asked to stop the job of a run, or another launcher has recorded its outcome."""
    run = store.call(store.client.get_run, run_id)
    return STOP_REQUESTED in run.data.tags or has_ended(run)


class LineFile:
    """Lines on disk, so that memory does not grow with them. The file is deleted with this object."""

    def __init__(self, name: str) -> None:
        folder = tempfile.mkdtemp(prefix="trainfare-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / name
        self.path.touch()

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines, without their line ends."""
        with self.path.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)


class EventCopy(LineFile):
    """The events so far, in their order."""

    def __init__(self) -> None:
        super().__init__("events.jsonl")
        self.result: Event | None = None
        """Last event with a job's result."""

    def append(self, events: Iterable[Event]) -> None:
        added = list(events)
        fields = ({"event": each.kind, "seq": each.seq, "time": each.time, **each.fields} for each in added)
        self.add(json.dumps(each, ensure_ascii=False).encode("utf-8", "replace") for each in fields)
        self.result = next((event for event in reversed(added) if event.kind == "result"), self.result)

    def __iter__(self) -> Iterator[Event]:
        with self.path.open("rb") as lines:
            for fields in map(json.loads, lines):
                yield Event(kind=fields.pop("event"), seq=fields.pop("seq"), time=fields.pop("time"), fields=fields)


TAIL_LINES = 1_000
"""Lines that are kept in memory, which hold the traceback of a job that fails."""
TAIL_CHARACTERS = 2_000
"""Beginning of each of these lines that is kept."""


class LogCopy(LineFile):
    """The lines of a log so far."""

    def __init__(self) -> None:
        super().__init__("log.txt")
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def append(self, lines: Sequence[str]) -> None:
        self.add(line.encode("utf-8", "replace") for line in lines)
        self._tail.extend(line[:TAIL_CHARACTERS] for line in lines[-TAIL_LINES:])

    def tail(self, count: int = TAIL_LINES) -> list[str]:
        """Return the last `count` lines. Long ones are cut, and a traceback that came in pieces is whole."""
        return repair_last_traceback(list(self._tail))[-count:]


class Recorder:
    """Writer of one job's run."""

    def __init__(self, store: Store, run_id: str, planned: PlannedJob) -> None:
        self._store, self.run_id, self._planned = store, run_id, planned
        self.restart()

    def restart(self) -> None:
        """Forget all events and lines before the log is read again. MLflow stores equal points once."""
        self.events = EventCopy()
        self.death: Death | None = None
        """Exception of which the job died, once its run has ended."""
        self.log = LogCopy()
        self._compiler_active = compiler_was_active(self._planned.spec.compiler, [])
        self._deduplicator = Deduplicator()
        self.has_artifacts = False
        """True if the job's output contains artifacts of the script."""
        self._logged: set[str] = set()
        """Parameters of the script's own run that are written."""

    def open(self, request: Request) -> None:
        """Write everything that is known before the job starts: parameters, request, experiment and data."""
        spec = self._planned.spec
        params = {name: getattr(spec, name) for name in MACHINE_FIELDS}
        self._log_batch(params=[Param(f"machine.{name}", str(value)) for name, value in params.items()])
        self._log_text(self._planned.experiment_yaml, "experiment.yaml")
        self._log_json(request, "request.json")
        dataset = dataset_input(self._planned.data, self._planned.data_key)
        self._store.call(self._store.client.log_inputs, self.run_id, [dataset])
        if self._planned.script:
            self._on_start(start_event(self._planned))
            if packages := self._planned.script.packages:
                pins = "".join(f"{name}=={version}\n" for name, version in packages.items())
                self._log_text(pins, "script-requirements.txt")

    def log_attempt(self, service_name: str, number: int) -> None:
        """Write the service's name and the number of a further attempt of a job that got no instances before."""
        self._store.tag(self.run_id, {SERVICE_NAME: service_name, CAPACITY_RETRIES: str(number)})

    def log_data(self) -> None:
        """Write the description and the class distribution of the job's data, and mark the run as described."""
        if (page := data_markdown(self._planned.data)) is not None:
            self._log_text(page, DATA_FILE)
        if self._planned.data.label_names:
            log_tables(self._store, self.run_id, {"class_distribution.json": class_rows(self._planned.data)})
        self._store.tag(self.run_id, {DESCRIBED: "true"})

    def record(self, lines: Sequence[str], events: Sequence[Event], system: Sequence[Metric] = ()) -> None:
        events = self._deduplicator.new_events(events)
        self.log.append(lines)
        if self._compiler_active is False:
            self._compiler_active = compiler_was_active(self._planned.spec.compiler, lines)
        self.events.append(events)
        metrics = [point for event in events for point in self._deduplicator.new_points(event)]
        self._log_batch(metrics=[*metrics, *system])
        for event in events:
            if event.kind == "start":
                self._on_start(event)
            elif event.kind == "logged":
                self._on_logged(event)

    def finish(
        self, description: Description, failure: Failure | None, missing: Sequence[str] = ()
    ) -> dict[str, float]:
        """Write the result, the cost and the artifacts, and end the run.

        The run's status is FINISHED, FAILED, or KILLED for a job that somebody stopped. `missing` are the records that
        have not arrived; once they have, the run can be finished again. Returns the final metrics.
        """
        result = self.events.result
        ended = end_of(description)
        price = self._planned.price_on(description.get("ResourceConfig", {}).get("SelectedInstanceType"))
        finals = final_metrics(self.events, result, description, price, self._planned.spec.billed_instances)
        if result and (script := self._planned.script) and script.target:
            finals |= target_metrics(script.target, self.events, description, finals)
        step = int(result.fields.get("steps", 0)) if result else 0
        self._log_batch(metrics=final_points(finals, ended.timestamp(), step, self._deduplicator.curves))
        uncounted = result.fields.get("not_countable", {}) if result else {}
        reasons = disturbances(lambda name: finals.get(name, math.nan))
        self.death = death_of(failure, self.events) if failure else None
        started, reported = description.get("TrainingStartTime"), result.fields if result else {}
        details = {
            "platform.training_start_time": repr(started.timestamp()) if started else None,
            "platform.cache_state": reported.get("cache_state"),
            RATE_UNKNOWN: reported.get("rate_unknown"),
            NOT_COUNTABLE: "; ".join(f"{each}: {why}" for each, why in uncounted.items()) or None,
            "platform.price_usd_per_hour": f"{price.usd_per_hour:g}" if price else None,
            "platform.price_source": price.source if price else None,
            "platform.price_date": price.date if price else None,
            "platform.compiler_active": None if self._compiler_active is None else str(self._compiler_active).lower(),
            EXCEPTION: self.death.exception if self.death else None,
            MOMENT: self.death.moment if self.death else None,
            MISSING: ", ".join(missing) or "no",
            DISTURBED: None if reasons is None else ", ".join(reasons) or "no",
        }
        tags = {
            "platform.instance_type": description.get("ResourceConfig", {}).get("SelectedInstanceType"),
            "platform.model_uri": description.get("ModelArtifacts", {}).get("S3ModelArtifacts"),
            "platform.failure_class": failure.failure_class if failure else None,
            "platform.failure_message": failure.message if failure else None,
        }
        self._add_details(details)
        known = {name: str(value) for name, value in tags.items() if value is not None}
        self._store.tag(self.run_id, {**pool_tags(description), **known})
        self._log_json(description, "description.json")
        for copy in (self.events, self.log):
            self._store.call(self._store.client.log_artifact, self.run_id, str(copy.path))
        log_tables(self._store, self.run_id, reported.get("tables", {}))
        note = job_note(self._planned, finals, failure, self.log.tail(20))
        if self.compiler_warning:
            note += f"\n\n**{without_markup(self._planned.arm)}**: {without_markup(self.compiler_warning)}."
        note += f"\n\n**Missing**: {missing_text(missing)}." if missing else ""
        note += f"\n\n**Disturbed**: {', '.join(reasons)}." if reasons else ""
        self._store.tag(self.run_id, {MLFLOW_RUN_NOTE: note})
        status = "FINISHED" if failure is None else "KILLED" if failure.is_stop else "FAILED"
        self._store.call(self._store.client.set_terminated, self.run_id, status, int(ended.timestamp() * 1000))
        return finals

    def finish_refused(self, failure: Failure) -> None:
        note = job_note(self._planned, {}, failure, [])
        tags = {"platform.failure_class": failure.failure_class, "platform.failure_message": failure.message}
        self._store.tag(self.run_id, {**tags, MLFLOW_RUN_NOTE: note})
        self._store.call(self._store.client.set_terminated, self.run_id, "FAILED")

    @property
    def compiler_warning(self) -> str | None:
        return compiler_warning(self._planned.spec.compiler, self._compiler_active)

    def _on_start(self, event: Event) -> None:
        self._log_batch(params=hyperparameters(event, self._planned.settings))
        device, versions = event.fields.get("device", {}), event.fields.get("versions", {})
        self._store.tag(self.run_id, {"platform.device": f"{device.get('count', 1)} x {device.get('name', 'unknown')}"})
        # Figures of two jobs are comparable only with equal versions.
        if names := [f"{name} {versions[name]}" for name in ("torch", "transformers") if versions.get(name)]:
            self._add_details({"platform.versions": ", ".join(names)})
        self._log_json(
            {**environment(), "job": {k: event.fields.get(k) for k in ("versions", "device", "threads")}},
            "environment.json",
        )

    def _on_logged(self, event: Event) -> None:
        """Write the parameters and tags that a script logged to its own MLflow, once each."""
        params = {f"script.{name}": str(value) for name, value in event.fields.get("params", {}).items()}
        self._log_batch(params=[Param(name, text) for name, text in params.items() if name not in self._logged])
        self._logged |= params.keys()
        self.has_artifacts |= bool(event.fields.get("artifacts"))
        tags = {f"script.{name}": str(value) for name, value in event.fields.get("tags", {}).items()}
        if tags:
            self._store.tag(self.run_id, tags)

    def log_artifacts(self, archive: bytes) -> None:
        """Write the artifacts of the script, a `tar.gz`. Raises ArtifactError, OSError."""
        with tempfile.TemporaryDirectory(prefix="trainfare-") as folder:
            unpack(io.BytesIO(archive), Path(folder), archive_name=SCRIPT_ARTIFACTS)
            self._store.call(self._store.client.log_artifacts, self.run_id, folder, "script")

    def _add_details(self, details: Mapping[str, Any]) -> None:
        known = json.loads(self._store.call(self._store.client.get_run, self.run_id).data.tags.get(DETAILS, "{}"))
        added = {name: str(value) for name, value in details.items() if value is not None}
        self._store.tag(self.run_id, details_tag(known | added))

    def _log_batch(self, metrics: Sequence[Metric] = (), params: Sequence[Param] = ()) -> None:
        client = self._store.client
        for at in range(0, len(metrics), _BATCH_METRICS):
            self._store.call(client.log_batch, self.run_id, metrics=metrics[at : at + _BATCH_METRICS])
        for at in range(0, len(params), _BATCH_PARAMS):
            self._store.call(client.log_batch, self.run_id, params=params[at : at + _BATCH_PARAMS])

    def _log_text(self, text: str, path: str) -> None:
        self._store.call(self._store.client.log_text, self.run_id, text, path)

    def _log_json(self, value: Any, path: str) -> None:
        self._log_text(json.dumps(value, indent=1, ensure_ascii=False, default=str), path)


def missing_text(missing: Iterable[str]) -> str:
    """Return the names of missing records, such as `the end of its log and its billed seconds`."""
    return " and ".join({"log": "the end of its log", "billing": "its billed seconds"}[name] for name in missing)


_CLASSES = frozenset({"Error", "OutOfMemory"})
"""Failure classes of jobs that ended themselves. Others were stopped, killed, or had no room or no data."""


def death_of(failure: Failure, events: Iterable[Event]) -> Death | None:
    """Return the exception of which a job died; None if it did not die of one."""
    exception = last_exception(failure.traceback.splitlines())
    if failure.failure_class not in _CLASSES or exception is None:
        return None
    has_stepped = any(each.kind == "metric" and each.fields.get("step", 0) > 0 for each in events)
    moment: Moment = "import" if exception.is_at_import else "later" if has_stepped else "start"
    return Death(exception=str(exception), moment=moment)


def recorded_death(tags: Mapping[str, str | None]) -> Death | None:
    exception, moment = tags.get(EXCEPTION), tags.get(MOMENT)
    known = next((each for each in MOMENTS if each == moment), None)
    return Death(exception=exception, moment=known) if exception and known else None


ACTIVE_LINES = ("Found configuration for Training Compiler", "Configuring SM Training Compiler")
"""Lines that the image prints when the compiler is on. Source: AWS's FAQ of the compiler."""


def compiler_was_active(compiler: str, lines: Iterable[str]) -> bool | None:
    """Return whether a job's log shows that the compiler ran; None if the job does not use the compiler's image."""
    if compiler not in {"trcomp", "trcomp-off"}:
        return None
    return any(phrase in line for line in lines for phrase in ACTIVE_LINES)


def compiler_warning(compiler: str, active: bool | None) -> str | None:
    """Return the reason why a job's figures do not match its compiler setting, or None."""
    if compiler == "trcomp" and active is False:
        return "its log does not show that SageMaker Training Compiler ran, so it counts as not compiled"
    if compiler == "trcomp-off" and active:
        return "its log shows that SageMaker Training Compiler ran, although it was turned off"
    return None
