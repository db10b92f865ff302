"""The parent run: what one command trains stands under it, and the same command again finds what it left open.

A group is open until its last job has ended. A launcher that was killed leaves its group open, so the same command
takes it up: jobs that run are attached to, jobs that ended are kept, and only what is missing is started.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mlflow.entities import Experiment, Run, ViewType
from mlflow.entities import RunStatus as Status
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from tracking.queries.job_tables import all_experiment_ids, quoted
from tracking.server.store import Store
from training.contract.errors import InputError


@dataclass(frozen=True)
class Group:
    """An open parent run."""

    id: str
    """Names the group on every run and in every job's name; survives the launcher that opened it."""
    run_id: str
    """The parent run."""
    experiment_id: str
    """MLflow experiment of the parent run and of its children."""
    continued: bool
    """True when an earlier launcher opened it and did not end it."""
    is_open: bool = True
    """False once its last job has ended."""
    experiment_name: str = ""
    """Name of the experiment that it is of."""
    verb: str = ""
    """That opened it."""

    @property
    def name(self) -> str:
        """What its parent run is called before there is an answer."""
        return _name(self.verb, self.experiment_name)


def open_group(
    store: Store, *, experiment_name: str, verb: str, key: str, description: str = "", joins: bool = False
) -> Group:
    """Return the open group of `key`, or a new one.

    The parent run is the one that `mlflow run` opened (MLFLOW_RUN_ID), else the open group's own, else a new one in the
    MLflow experiment `experiment_name` (MLFLOW_EXPERIMENT_NAME and MLFLOW_EXPERIMENT_ID take precedence).

    With `joins` several launchers work on one group, and a group that has ended goes on: it keeps the parent run that
    it has, and the run of a launcher that joins only says so.
    """
    experiment_id = _experiment_id(store, experiment_name)
    _introduce(store, experiment_id, description)
    if joins and (group := _joined(store, experiment_id, key, experiment_name, verb)):
        return group
    open_runs = _open_runs(store, experiment_id, key)
    group_id = open_runs[0].data.tags["platform.group"] if open_runs else _new_id(experiment_name)
    tags = {
        "platform.kind": "group",
        "platform.group": group_id,
        "platform.group_key": key,
        "platform.group_state": "open",
        "platform.experiment": experiment_name,
        "platform.verb": verb,
        MLFLOW_RUN_NAME: _name(verb, experiment_name),
    }
    run_id = _parent_run_id(store, experiment_id, open_runs, tags)
    for run in open_runs:
        if run.info.run_id != run_id:
            _hand_over(store, run, run_id)
    continued = bool(open_runs)
    return Group(group_id, run_id, experiment_id, continued=continued, experiment_name=experiment_name, verb=verb)


def close_group(store: Store, group: Group, status: str, note: str = "") -> None:
    """End the parent run with `status` (FINISHED, FAILED or KILLED); the group is then complete.

    `note` describes it where no report does.
    """
    store.tag(group.run_id, {"platform.group_state": "closed", **({MLFLOW_RUN_NOTE: note} if note else {})})
    store.call(store.client.set_terminated, group.run_id, status)


def find_group(store: Store, *, group_id: str | None, experiment_name: str) -> Group:
    """Return the group of that id, or the latest one of an experiment. Raises `InputError` where there is none."""
    wanted = f'tags."platform.group" = {quoted(group_id)}' if group_id else None
    wanted = wanted or f'tags."platform.experiment" = {quoted(experiment_name)}'
    experiments = store.call(lambda: list(all_experiment_ids(store.client)))
    query = f"{wanted} and tags.\"platform.kind\" = 'group' and tags.\"platform.group_state\" != 'continued'"
    order = ["attributes.start_time DESC"]
    found = store.call(store.client.search_runs, experiments, query, order_by=order, max_results=1)
    if not found:
        raise InputError(_not_found(store, experiments, query, group_id or "", experiment_name))
    info, tags = found[0].info, found[0].data.tags
    return Group(
        tags["platform.group"],
        info.run_id,
        info.experiment_id,
        continued=True,
        is_open=tags.get("platform.group_state") == "open",
        experiment_name=tags.get("platform.experiment", experiment_name),
        verb=tags.get("platform.verb", ""),
    )


def _not_found(store: Store, experiments: list[str], query: str, group_id: str, experiment_name: str) -> str:
    """Return why there is no such group: it is deleted, or this user may not read it, or there is none."""
    what = f"group '{group_id}'" if group_id else f"jobs of experiment '{experiment_name}'"
    deleted = store.call(store.client.search_runs, experiments, query, ViewType.DELETED_ONLY, max_results=1)
    if deleted:
        run_id = deleted[0].info.run_id
        return f"the run of {what} is deleted: `mlflow runs restore --run-id {run_id}` brings it back."
    seen = f" that user '{store.user}' may read" if store.user else ""
    return f"the tracking server {store.uri} holds no {what}{seen}."


def child_runs(store: Store, group: Group) -> dict[str, Run]:
    """Return the group's job runs by job name, and put those of an earlier parent under this one."""
    query = f"tags.\"platform.group\" = '{group.id}' and tags.\"platform.kind\" = 'job'"
    runs = {run.data.tags["platform.job_name"]: run for run in _search(store, group.experiment_id, query)}
    for run in runs.values():
        if run.data.tags.get(MLFLOW_PARENT_RUN_ID) != group.run_id:
            store.tag(run.info.run_id, {MLFLOW_PARENT_RUN_ID: group.run_id})
    return runs


def child_run(store: Store, group: Group, job_name: str) -> Run | None:
    """Return the run of one of the group's jobs."""
    query = f"tags.\"platform.group\" = '{group.id}' and tags.\"platform.job_name\" = '{job_name}'"
    return next(iter(_search(store, group.experiment_id, query)), None)


def _experiment_id(store: Store, name: str) -> str:
    if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        store.subject = f"experiment {given}"
        return given
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or name
    store.subject = f"experiment '{name}'"

    def existing() -> str | None:
        found: Experiment | None = store.client.get_experiment_by_name(name)
        return str(found.experiment_id) if found else None

    return store.call(existing) or store.create(store.client.create_experiment, name, existing=existing)


def _introduce(store: Store, experiment_id: str, description: str) -> None:
    """Describe the MLflow experiment, and have its UI open on training runs rather than on traces."""
    experiment: Experiment = store.call(store.client.get_experiment, experiment_id)
    for name, value in {"mlflow.experimentKind": "custom_model_development", MLFLOW_RUN_NOTE: description}.items():
        if value and name not in experiment.tags:
            store.call(store.client.set_experiment_tag, experiment_id, name, value)


def _joined(store: Store, experiment_id: str, key: str, experiment_name: str, verb: str) -> Group | None:
    query = f"tags.\"platform.group_key\" = '{key}' and tags.\"platform.kind\" = 'group'"
    found = _search(store, experiment_id, query)
    if not found:
        return None
    run_id, group_id = str(found[-1].info.run_id), found[-1].data.tags["platform.group"]
    store.tag(run_id, {"platform.group_state": "open"})
    store.call(store.client.update_run, run_id, status=Status.to_string(Status.RUNNING))
    own = os.environ.get("MLFLOW_RUN_ID")
    if own and own != run_id:
        store.tag(own, {"platform.kind": "worker", MLFLOW_RUN_NOTE: f"Works on {group_id}: run `{run_id}`."})
    return Group(group_id, run_id, experiment_id, continued=True, experiment_name=experiment_name, verb=verb)


def _open_runs(store: Store, experiment_id: str, key: str) -> list[Run]:
    query = f"tags.\"platform.group_key\" = '{key}' and tags.\"platform.group_state\" = 'open'"
    return _search(store, experiment_id, query)


def _search(store: Store, experiment_id: str, query: str) -> list[Run]:
    found: list[Run] = []
    token: str | None = None
    while True:
        page = store.call(
            store.client.search_runs, [experiment_id], query, order_by=["attributes.start_time DESC"], page_token=token
        )
        found += page
        token = page.token
        if not token:
            return found


def _parent_run_id(store: Store, experiment_id: str, open_runs: list[Run], tags: dict[str, str]) -> str:
    # All tags at once: a launcher killed between two of them would leave a group that nobody finds again.
    if given := os.environ.get("MLFLOW_RUN_ID"):
        store.tag(given, tags)
        return given
    if open_runs:
        run_id = str(open_runs[0].info.run_id)
        store.call(store.client.update_run, run_id, status=Status.to_string(Status.RUNNING))
        return run_id
    return create_run(store, experiment_id, tags, ("platform.kind", "platform.group"))


def create_run(store: Store, experiment_id: str, tags: Mapping[str, str], naming: Sequence[str]) -> str:
    """Return the id of a new run with these tags; those in `naming` are its own alone, by which it is found again."""
    query = " and ".join(f'tags."{name}" = {quoted(tags[name])}' for name in naming)

    def existing() -> Run | None:
        return next(iter(store.client.search_runs([experiment_id], query, max_results=1)), None)

    run = store.create(store.client.create_run, experiment_id, tags=dict(tags), existing=existing)
    return str(run.info.run_id)


def _hand_over(store: Store, run: Run, heir_run_id: str) -> None:
    note = f"The launcher of this run died; run `{heir_run_id}` took up its jobs."
    store.tag(run.info.run_id, {"platform.group_state": "continued", MLFLOW_RUN_NOTE: note})
    if not Status.is_terminated(Status.from_string(run.info.status)):
        store.call(store.client.set_terminated, run.info.run_id, "KILLED")


def _name(verb: str, experiment_name: str) -> str:
    return f"{verb} {experiment_name}".strip()


def _new_id(experiment_name: str) -> str:
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in experiment_name).strip("-").lower()[:24]
    return f"{stem or 'experiment'}-{datetime.now(UTC):%y%m%d-%H%M%S}-{secrets.token_hex(2)}"
