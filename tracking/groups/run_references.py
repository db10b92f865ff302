"""References of the tracking server to local jobs and data. Referenced jobs and data may still be needed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mlflow.artifacts import download_artifacts, list_artifacts
from mlflow.entities import LifecycleStage, LoggedModelStatus, Run, RunStatus, ViewType
from mlflow.exceptions import MlflowException

from tracking.groups.plan_file import FILE as PLAN
from tracking.groups.planned_job import MODEL_ID
from tracking.queries.job_tables import quoted
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.contract.plain_text import without_secrets

Result = TypeVar("Result")

MODEL_TAG = "platform.model_uri"
DELETED_MODEL_TAG = "platform.model_deleted"
"""Tag with the date on which a run's model artifact was deleted, and the artifact's address."""

LOG = "log.txt"


@dataclass(frozen=True, kw_only=True)
class JobReference:
    """References of one job's runs. If some of them are deleted, only the others count."""

    experiment: str
    """Name of the experiment; empty if the parent run no longer exists."""
    is_deleted: bool = False
    """True if all runs are marked as deleted. MLflow hides such runs and keeps them until `mlflow gc`."""
    has_ended: bool = True
    """True if the job's outcome is recorded."""
    is_completed: bool = True
    """True if the job completed."""
    has_log: bool = True
    """True if the runs contain the log; valid only for jobs in `with_log`."""
    model_uris: Mapping[str, str] = field(default_factory=dict)
    """Address of the model artifact in each run's tag, by run id."""
    has_model: bool = False
    """True if MLflow has a copy of the model, so that no artifact or checkpoint is the only copy."""


@dataclass(frozen=True, kw_only=True)
class RunReferences:
    """The jobs and data that runs on the tracking server refer to."""

    jobs: Mapping[str, JobReference]
    """References by job name. A missing job belongs to another tracking server, or `mlflow gc` removed its runs."""
    open_groups: Mapping[str, str]
    """Text that names everything that an open group's jobs read (its plan and data keys), by group id."""
    data_keys: Set[str]
    """Keys of staged data that a run refers to, including deleted runs."""


def find_references(
    store: Store,
    *,
    job_names: Collection[str],
    with_log: Collection[str],
    data_keys: Collection[str],
    page_runs: int = 1000,
) -> RunReferences:
    """Return the references of the tracking server to these jobs and keys of staged data, and all open groups.

    The log is looked up only for the jobs in `with_log`. Runs are read in pages of `page_runs`. Raises TrackingError.
    """
    server = _Server(store, page_runs)
    groups = _groups(server)
    by_group: dict[str | None, list[str]] = {}
    for name in job_names:
        by_group.setdefault(_group_of(name, groups), []).append(name)
    jobs: dict[str, JobReference] = {}
    for group_id, names in by_group.items():
        group = groups[group_id] if group_id else _NO_GROUP
        logged = () if group.open_runs else with_log
        runs = _runs_of(server, group, names)
        jobs |= {
            name: _job_reference(server, runs[name], group.experiment, name in logged) for name in names if name in runs
        }
    return RunReferences(
        jobs=jobs,
        open_groups={each.id: _inputs(server, each) for each in groups.values() if each.open_runs},
        data_keys={key for key in data_keys if server.has_run(_is("data_key", key))},
    )


def mark_models_deleted(store: Store, job: JobReference) -> None:
    """Record in the runs of a job that its model artifact is deleted, and remove its address. Raises TrackingError."""
    for run_id, uri in job.model_uris.items():
        mark_model_deleted(store, run_id, uri)


def mark_model_deleted(store: Store, run_id: str, uri: str) -> None:
    """Record in a run that its model artifact at `uri` is deleted, and remove its address. Raises TrackingError."""
    store.tag(run_id, {DELETED_MODEL_TAG: f"{datetime.now(UTC):%Y-%m-%d} {uri}"})
    store.call(store.client.delete_tag, run_id, MODEL_TAG)


@dataclass(frozen=True, kw_only=True)
class _Group:
    id: str
    experiment: str
    open_runs: Sequence[Run]
    """Parent runs whose tag says that the group is open."""


_NO_GROUP = _Group(id="", experiment="", open_runs=())
"""Group of the jobs whose parent run no longer exists."""


def _groups(server: _Server) -> dict[str, _Group]:
    parents: dict[str, list[Run]] = {}
    for run in server.runs(_is("kind", "group")):
        parents.setdefault(run.data.tags.get("platform.group", ""), []).append(run)
    return {name: _group(name, runs) for name, runs in parents.items()}


def _group(name: str, runs: Sequence[Run]) -> _Group:
    experiment = runs[0].data.tags.get("platform.experiment", "")
    open_runs = [run for run in runs if not _is_deleted(run) and run.data.tags.get("platform.group_state") == "open"]
    return _Group(id=name, experiment=experiment, open_runs=open_runs)


def _group_of(job_name: str, groups: Collection[str]) -> str | None:
    """Return the group of a job. A job's name begins with the id of its group."""
    words = job_name.split("-")
    starts = ("-".join(words[:end]) for end in range(len(words) - 1, 0, -1))
    return next((start for start in starts if start in groups), None)


def _runs_of(server: _Server, group: _Group, names: Sequence[str]) -> dict[str, list[Run]]:
    """Return the runs by job name. A group is read in one search by its id, because a filter cannot list names."""
    filters = [_is("group", group.id)] if group.id else [_is("job_name", name) for name in names]
    runs: dict[str, list[Run]] = {}
    for one_filter in filters:
        for run in server.runs(f"{_is('kind', 'job')} and {one_filter}"):
            runs.setdefault(run.data.tags.get("platform.job_name", ""), []).append(run)
    return runs


def _job_reference(server: _Server, runs: Sequence[Run], experiment: str, with_log: bool) -> JobReference:
    active = [run for run in runs if not _is_deleted(run)]
    if not active:
        return JobReference(experiment=experiment, is_deleted=True)
    has_ended = all(RunStatus.is_terminated(RunStatus.from_string(run.info.status)) for run in active)
    return JobReference(
        experiment=experiment,
        has_ended=has_ended,
        is_completed=all(run.info.status == "FINISHED" for run in active),
        has_log=has_ended and with_log and all(LOG in server.artifacts(run) for run in active),
        model_uris={run.info.run_id: run.data.tags[MODEL_TAG] for run in active if MODEL_TAG in run.data.tags},
        has_model=all(server.holds_model(run) for run in active),
    )


def _inputs(server: _Server, group: _Group) -> str:
    """Return the plan of an open group and the data keys of its jobs. A sweep has no plan; its jobs share one key."""
    plans = [server.plan(run) for run in group.open_runs if PLAN in server.artifacts(run)]
    runs = server.runs(f"{_is('kind', 'job')} and {_is('group', group.id)}")
    return "\n".join([*plans, *(run.data.tags.get("platform.data_key", "") for run in runs)])


def _is(name: str, value: str) -> str:
    return f'tags."platform.{name}" = {quoted(value)}'


def _is_deleted(run: Run) -> bool:
    return bool(run.info.lifecycle_stage == LifecycleStage.DELETED)


@dataclass(frozen=True)
class _Server:
    """Searches on the tracking server that include deleted runs and experiments."""

    store: Store
    page_runs: int

    @cached_property
    def _experiment_ids(self) -> list[str]:
        ids: list[str] = []
        token = None
        search = self.store.client.search_experiments
        while True:
            page = self.store.call(search, ViewType.ALL, max_results=1000, page_token=token)
            ids += [str(each.experiment_id) for each in page]
            token = page.token
            if not token:
                return ids

    def runs(self, query: str) -> Iterator[Run]:
        token = None
        search = self.store.client.search_runs
        while ids := self._experiment_ids:
            page = self.store.call(search, ids, query, ViewType.ALL, max_results=self.page_runs, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def has_run(self, query: str) -> bool:
        ids = self._experiment_ids
        return bool(ids and self.store.call(self.store.client.search_runs, ids, query, ViewType.ALL, max_results=1))

    def artifacts(self, run: Run) -> set[str]:
        """Return the names of a run's artifacts."""
        files = self._read(run, lambda uri: list_artifacts(artifact_uri=run.info.artifact_uri, tracking_uri=uri))
        return {PurePosixPath(each.path).name for each in files}

    def holds_model(self, run: Run) -> bool:
        """Return whether a run's logged model exists and is complete."""
        if (model_id := run.data.tags.get(MODEL_ID)) is None:
            return False
        try:
            model = self.store.call(self.store.client.get_logged_model, model_id)
        except TrackingError as error:
            if isinstance(error.__cause__, MlflowException) and error.__cause__.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False  # deleted by a user
            raise
        return bool(model.status == LoggedModelStatus.READY)

    def plan(self, run: Run) -> str:
        """Return the text of an open group's plan. Raises `TrackingError` if it is damaged: it may name any folder."""
        artifact_uri = f"{run.info.artifact_uri}/{PLAN}"
        with tempfile.TemporaryDirectory() as folder:
            path = self._read(
                run, lambda uri: download_artifacts(artifact_uri=artifact_uri, dst_path=folder, tracking_uri=uri)
            )
            content = Path(path).read_bytes()
        try:
            json.loads(content)["jobs"]
            return content.decode("utf-8")
        except (ValueError, TypeError, LookupError) as error:
            raise TrackingError(
                f"The {PLAN} of run {run.info.run_id} is damaged, so nobody knows which folders its open group needs: "
                "delete the run in MLflow if the group is not to resume"
            ) from error

    def _read(self, run: Run, method: Callable[[str], Result]) -> Result:
        try:
            return self.store.call(method, str(self.store.client.tracking_uri))
        # Artifacts that are read without the server raise the errors of their own store.
        except Exception as error:
            first_line = (str(error).splitlines() or [type(error).__name__])[0]
            message = without_secrets(first_line, str(self.store.client.tracking_uri))[:300]
            raise TrackingError(f"The artifacts of run {run.info.run_id} cannot be read: {message}") from error
