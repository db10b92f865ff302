"""What the tracking server says of jobs and data that lie on a machine, for whoever wants to delete them there."""

from __future__ import annotations

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
from tracking.server.errors import without_credentials
from tracking.server.store import Store
from training.contract.errors import TrackingError

Result = TypeVar("Result")

MODEL_TAG = "platform.model_uri"
DELETED_MODEL_TAG = "platform.model_deleted"
"""When a run's model artifact was deleted, and what its address was."""

LOG = "log.txt"


@dataclass(frozen=True, kw_only=True)
class ToldJob:
    """What the runs of a job say; where some are deleted and some are not, the latter count."""

    experiment: str
    """Name of the experiment; empty where its parent run is gone."""
    is_deleted: bool = False
    """Whether its runs are deleted: MLflow lists them no more, but keeps them until `mlflow gc`."""
    has_ended: bool = True
    """Whether its end is recorded."""
    is_completed: bool = True
    """Whether it ended as it should."""
    has_log: bool = True
    """Whether the runs hold its log; told only of jobs for which that was asked."""
    model_uris: Mapping[str, str] = field(default_factory=dict)
    """Address of the model artifact by the id of the run that names it."""
    has_model: bool = False
    """Whether MLflow holds its model, so that no artifact and no checkpoint is the only copy."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """All that was asked."""

    jobs: Mapping[str, ToldJob]
    """By job name. A job that is not here is another tracking server's, or its runs are deleted for good."""
    open_groups: Mapping[str, str]
    """Id of each open group to a text that holds the names of all that its jobs read: its plan, and their data."""
    data_keys: Set[str]
    """Keys of staged data that a run has, be it a deleted one."""


def ask(
    store: Store,
    *,
    job_names: Collection[str],
    with_log: Collection[str],
    data_keys: Collection[str],
    page_runs: int = 1000,
) -> Told:
    """Return what the tracking server says of these jobs and these keys of staged data, and of all open groups.

    `with_log` are the jobs whose runs are asked for the log too; `page_runs` are read at a time. Raises TrackingError.
    """
    server = _Server(store, page_runs)
    groups = _groups(server)
    by_group: dict[str | None, list[str]] = {}
    for name in job_names:
        by_group.setdefault(_group_of(name, groups), []).append(name)
    jobs: dict[str, ToldJob] = {}
    for group_id, names in by_group.items():
        group = groups[group_id] if group_id else _NO_GROUP
        asked = () if group.open_runs else with_log
        runs = _runs_of(server, group, names)
        jobs |= {name: _told(server, runs[name], group.experiment, name in asked) for name in names if name in runs}
    return Told(
        jobs=jobs,
        open_groups={each.id: _reads(server, each) for each in groups.values() if each.open_runs},
        data_keys={key for key in data_keys if server.has_run(_is("data_key", key))},
    )


def forget_models(store: Store, job: ToldJob) -> None:
    """Have the runs of a job say that its model artifact is deleted, and name it no more. Raises TrackingError."""
    for run_id, uri in job.model_uris.items():
        store.tag(run_id, {DELETED_MODEL_TAG: f"{datetime.now(UTC):%Y-%m-%d} {uri}"})
        store.call(store.client.delete_tag, run_id, MODEL_TAG)


@dataclass(frozen=True, kw_only=True)
class _Group:
    id: str
    experiment: str
    open_runs: Sequence[Run]
    """Parent runs that say that the group is open."""


_NO_GROUP = _Group(id="", experiment="", open_runs=())
"""That of jobs whose parent run is gone."""


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
    """Return the group of a job, with whose id its name begins."""
    words = job_name.split("-")
    starts = ("-".join(words[:end]) for end in range(len(words) - 1, 0, -1))
    return next((start for start in starts if start in groups), None)


def _runs_of(server: _Server, group: _Group, names: Sequence[str]) -> dict[str, list[Run]]:
    """Return the runs by job: of a group all at once, since a filter knows no list of names."""
    asked = [_is("group", group.id)] if group.id else [_is("job_name", name) for name in names]
    found: dict[str, list[Run]] = {}
    for where in asked:
        for run in server.runs(f"{_is('kind', 'job')} and {where}"):
            found.setdefault(run.data.tags.get("platform.job_name", ""), []).append(run)
    return found


def _told(server: _Server, runs: Sequence[Run], experiment: str, with_log: bool) -> ToldJob:
    active = [run for run in runs if not _is_deleted(run)]
    if not active:
        return ToldJob(experiment=experiment, is_deleted=True)
    has_ended = all(RunStatus.is_terminated(RunStatus.from_string(run.info.status)) for run in active)
    return ToldJob(
        experiment=experiment,
        has_ended=has_ended,
        is_completed=all(run.info.status == "FINISHED" for run in active),
        has_log=has_ended and with_log and all(LOG in server.artifacts(run) for run in active),
        model_uris={run.info.run_id: run.data.tags[MODEL_TAG] for run in active if MODEL_TAG in run.data.tags},
        has_model=all(server.holds_model(run) for run in active),
    )


def _reads(server: _Server, group: _Group) -> str:
    """Return the plan of an open group, and the keys of its jobs' data: a sweep has no plan, its jobs share one key."""
    plans = [server.text(run, PLAN) for run in group.open_runs if PLAN in server.artifacts(run)]
    runs = server.runs(f"{_is('kind', 'job')} and {_is('group', group.id)}")
    return "\n".join([*plans, *(run.data.tags.get("platform.data_key", "") for run in runs)])


def _is(name: str, value: str) -> str:
    return f'tags."platform.{name}" = {quoted(value)}'


def _is_deleted(run: Run) -> bool:
    return bool(run.info.lifecycle_stage == LifecycleStage.DELETED)


@dataclass(frozen=True)
class _Server:
    """The tracking server, deleted runs and experiments included."""

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

    def runs(self, where: str) -> Iterator[Run]:
        token = None
        search = self.store.client.search_runs
        while ids := self._experiment_ids:
            page = self.store.call(search, ids, where, ViewType.ALL, max_results=self.page_runs, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def has_run(self, where: str) -> bool:
        ids = self._experiment_ids
        return bool(ids and self.store.call(self.store.client.search_runs, ids, where, ViewType.ALL, max_results=1))

    def artifacts(self, run: Run) -> set[str]:
        """Return the names of a run's artifacts."""
        found = self._read(run, lambda uri: list_artifacts(artifact_uri=run.info.artifact_uri, tracking_uri=uri))
        return {PurePosixPath(each.path).name for each in found}

    def holds_model(self, run: Run) -> bool:
        """Tell whether a run's logged model is there and whole."""
        if (model_id := run.data.tags.get(MODEL_ID)) is None:
            return False
        try:
            model = self.store.call(self.store.client.get_logged_model, model_id)
        except TrackingError as error:
            if isinstance(error.__cause__, MlflowException) and error.__cause__.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False  # somebody has deleted it
            raise
        return bool(model.status == LoggedModelStatus.READY)

    def text(self, run: Run, name: str) -> str:
        place = f"{run.info.artifact_uri}/{name}"
        with tempfile.TemporaryDirectory() as folder:
            path = self._read(
                run, lambda uri: download_artifacts(artifact_uri=place, dst_path=folder, tracking_uri=uri)
            )
            return Path(path).read_text("utf-8")

    def _read(self, run: Run, method: Callable[[str], Result]) -> Result:
        try:
            return self.store.call(method, str(self.store.client.tracking_uri))
        # Where artifacts do not go through the server, each kind of store raises errors of its own.
        except Exception as error:
            said = without_credentials((str(error).splitlines() or [type(error).__name__])[0])[:300]
            raise TrackingError(f"The artifacts of run {run.info.run_id} cannot be read: {said}") from error
