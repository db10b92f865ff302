"""Groups: a command's jobs, under one MLflow parent run.

A group is open until its last job has ended. A launcher that is killed leaves its group open, and the same command
resumes it: it follows running jobs, keeps ended ones, and starts only the missing ones.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from mlflow.entities import Experiment, Run, ViewType
from mlflow.entities import RunStatus as Status
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from tracking.groups.claim import Subject, find_or_open, launch_lock, mark_duplicate
from tracking.queries.job_tables import all_experiment_ids, counted_run, has_ended, pages, tagged, without_duplicates
from tracking.server.store import Store
from training.contract.errors import InputError

MAX_STEM = 24
"""Characters of a group's id before its time: SageMaker allows 63 for the name of a job, which begins with the id."""


@dataclass(frozen=True)
class Group:
    """A command's jobs, as recorded in an MLflow parent run."""

    id: str
    """Id of the group on every run and in every job's name. It stays the same when the group is resumed."""
    run_id: str
    """Id of the parent run."""
    experiment_id: str
    """MLflow experiment of the parent run and of its children."""
    continued: bool
    """True if an earlier launcher opened the group and did not close it."""
    is_open: bool = True
    """False once its last job has ended."""
    experiment_name: str = ""
    """Name of our experiment."""
    verb: str = ""
    """Command that opened the group."""

    @property
    def name(self) -> str:
        """Name of the parent run until a report names its verdict."""
        return f"{self.verb} {self.experiment_name}".strip()


def open_group(
    store: Store,
    *,
    experiment_name: str,
    verb: str,
    key: str,
    description: str = "",
    joins: bool = False,
    tags: Mapping[str, str] | None = None,
    prefix: str = "",
) -> Group:
    """Return the open group with the key `key`, or a new group, whose id and jobs' names begin with `prefix`.

    The parent run is the one that `mlflow run` opened (MLFLOW_RUN_ID), else the open group's own, else a new one in the
    MLflow experiment `experiment_name` (MLFLOW_EXPERIMENT_NAME and MLFLOW_EXPERIMENT_ID take precedence).

    With `joins`, several launchers can work on the group, and a group that has ended is opened again. The group keeps
    its parent run; a run that `mlflow run` opened for a joining launcher only names it. `tags` are added to the parent
    run. Launchers that open the group at the same time all return the same one.
    """
    with launch_lock():
        experiment_id = _experiment_id(store, experiment_name)
        experiment: Experiment = store.call(store.client.get_experiment, experiment_id)
        # The first tag makes MLflow's UI open on training runs instead of traces.
        for name, value in {"mlflow.experimentKind": "custom_model_development", MLFLOW_RUN_NOTE: description}.items():
            if value and name not in experiment.tags:
                store.call(store.client.set_experiment_tag, experiment_id, name, value)
        if joins and (group := _join_group(store, experiment_id, key, experiment_name, verb)):
            return group
        open_runs = _open_runs(store, experiment_id, key)
        new_id = f"{_stem(experiment_name, prefix)}-{datetime.now(UTC):%y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        group_id = open_runs[0].data.tags["platform.group"] if open_runs else new_id
        all_tags = {
            **(tags or {}),
            "platform.kind": "group",
            "platform.group": group_id,
            "platform.group_key": key,
            "platform.group_state": "open",
            "platform.experiment": experiment_name,
            "platform.verb": verb,
            MLFLOW_RUN_NAME: f"{verb} {experiment_name}".strip(),
        }
        if open_runs:
            run_id = _resume(store, open_runs, all_tags)
        else:
            # A launcher on another machine may open the group at the same time: then its run and its id count.
            identity = {name: all_tags[name] for name in ("platform.group_key", "platform.group_state")}
            run = find_or_open(store, Subject(experiment_id, identity, all_tags), os.environ.get("MLFLOW_RUN_ID"))
            run_id, group_id = str(run.info.run_id), run.data.tags["platform.group"]
    continued = group_id != new_id
    return Group(group_id, run_id, experiment_id, continued=continued, experiment_name=experiment_name, verb=verb)


def close_group(store: Store, group: Group, status: str, note: str = "") -> None:
    """Close the group, and end its parent run with `status`: FINISHED, FAILED or KILLED.

    `note` is the parent run's description if no report writes one.
    """
    store.tag(group.run_id, {"platform.group_state": "closed", **({MLFLOW_RUN_NOTE: note} if note else {})})
    store.call(store.client.set_terminated, group.run_id, status)


def open_group_id(store: Store, experiment_name: str, key: str) -> str | None:
    """Return the id of the open group that `open_group` would continue, or None. Changes nothing."""
    experiment_id = existing_experiment_id(store, experiment_name)
    runs = _open_runs(store, experiment_id, key) if experiment_id else []
    return runs[0].data.tags["platform.group"] if runs else None


def existing_experiment_id(store: Store, name: str) -> str | None:
    """Return the id of the MLflow experiment of a command's runs, or None if it does not exist yet."""
    if experiment_id := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return experiment_id
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or name
    store.subject = f"experiment '{name}'"
    experiment: Experiment | None = store.call(store.client.get_experiment_by_name, name)
    return str(experiment.experiment_id) if experiment else None


def find_group(store: Store, *, group_id: str | None, experiment_name: str) -> Group:
    """Return the group with that id, or the latest one of an experiment. Raises `InputError` if no group matches."""
    name_filter = tagged(group=group_id) if group_id else tagged(experiment=experiment_name)
    experiments = store.call(all_experiment_ids, store.client)
    query = f"{name_filter} and {tagged(kind='group')} and tags.`platform.group_state` != 'continued'"
    order = ["attributes.start_time DESC"]
    runs = store.call(store.client.search_runs, experiments, query, order_by=order, max_results=1)
    if not runs:
        raise InputError(_missing_group(store, experiments, query, group_id or "", experiment_name))
    info, tags = runs[0].info, runs[0].data.tags
    return Group(
        tags["platform.group"],
        info.run_id,
        info.experiment_id,
        continued=True,
        is_open=tags.get("platform.group_state") == "open",
        experiment_name=tags.get("platform.experiment", experiment_name),
        verb=tags.get("platform.verb", ""),
    )


def _missing_group(store: Store, experiments: list[str], query: str, group_id: str, experiment_name: str) -> str:
    """Return why a group is missing: its run is deleted, the user may not read it, or it does not exist."""
    subject = f"group '{group_id}'" if group_id else f"jobs of experiment '{experiment_name}'"
    deleted = store.call(store.client.search_runs, experiments, query, ViewType.DELETED_ONLY, max_results=1)
    if deleted:
        run_id = deleted[0].info.run_id
        return f"the run of {subject} is deleted: restore it with `mlflow runs restore --run-id {run_id}`."
    readable = f" that user '{store.user}' may read" if store.user else ""
    return f"the tracking server {store.uri} has no {subject}{readable}."


def child_runs(store: Store, group: Group) -> dict[str, Run]:
    """Return the run of each of the group's jobs by job name. Runs under an earlier parent run are moved to this one.

    Further runs of the same job, which launchers of earlier versions opened, are marked as duplicates.
    """
    every = search_runs(store, group.experiment_id, tagged(kind="job", group=group.id))
    runs = {run.data.tags["platform.job_name"]: run for run in without_duplicates(every)}
    for run in every:
        counted = runs[run.data.tags["platform.job_name"]].info.run_id
        if run.info.run_id != counted:
            mark_duplicate(store, run, counted)
    for run in runs.values():
        if run.data.tags.get(MLFLOW_PARENT_RUN_ID) != group.run_id:
            store.tag(run.info.run_id, {MLFLOW_PARENT_RUN_ID: group.run_id})
    return runs


def child_run(store: Store, group: Group, job_name: str) -> Run | None:
    """Return the run of one of the group's jobs."""
    runs = search_runs(store, group.experiment_id, tagged(kind="job", group=group.id, job_name=job_name))
    return counted_run(runs) if runs else None


def _experiment_id(store: Store, name: str) -> str:
    if experiment_id := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        store.subject = f"experiment {experiment_id}"
        return experiment_id
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or name

    def existing() -> str | None:
        return existing_experiment_id(store, name)

    return existing() or store.create(store.client.create_experiment, name, existing=existing)


def _join_group(store: Store, experiment_id: str, key: str, experiment_name: str, verb: str) -> Group | None:
    runs = search_runs(store, experiment_id, tagged(kind="group", group_key=key))
    if not runs:
        return None
    run_id, group_id = str(runs[-1].info.run_id), runs[-1].data.tags["platform.group"]
    store.tag(run_id, {"platform.group_state": "open"})
    store.call(store.client.update_run, run_id, status=Status.to_string(Status.RUNNING))
    own = os.environ.get("MLFLOW_RUN_ID")
    if own and own != run_id:
        store.tag(own, {"platform.kind": "worker", MLFLOW_RUN_NOTE: f"Works on {group_id}: run `{run_id}`."})
    return Group(group_id, run_id, experiment_id, continued=True, experiment_name=experiment_name, verb=verb)


def _open_runs(store: Store, experiment_id: str, key: str) -> list[Run]:
    return search_runs(store, experiment_id, tagged(kind="group", group_key=key, group_state="open"))


def search_runs(store: Store, experiment_id: str, query: str, view: int = ViewType.ACTIVE_ONLY) -> list[Run]:
    """Return all runs that match a filter in MLflow's language, newest first."""
    order = ["attributes.start_time DESC"]
    return list(pages(partial(store.call, store.client.search_runs), [experiment_id], query, view, order_by=order))


def _resume(store: Store, open_runs: Sequence[Run], tags: Mapping[str, str]) -> str:
    """Return the parent run of an open group: the run that `mlflow run` opened, or else the group's own."""
    if own_run_id := os.environ.get("MLFLOW_RUN_ID"):
        # One call sets all tags: a launcher killed between two calls would leave a group that no search finds.
        store.tag(own_run_id, tags)
        for run in open_runs:
            if run.info.run_id != own_run_id:
                note = f"The launcher of this run died; run `{own_run_id}` continues its jobs."
                store.tag(run.info.run_id, {"platform.group_state": "continued", MLFLOW_RUN_NOTE: note})
                if not has_ended(run):
                    store.call(store.client.set_terminated, run.info.run_id, "KILLED")
        return own_run_id
    first = counted_run(open_runs)
    store.call(store.client.update_run, first.info.run_id, status=Status.to_string(Status.RUNNING))
    return str(first.info.run_id)


def placeholder_id(experiment_name: str, prefix: str = "") -> str:
    """Return an id with the form of a new group's, for a plan: the real one contains the time of its start."""
    return f"{_stem(experiment_name, prefix)}-000000-000000-0000"


def _stem(experiment_name: str, prefix: str) -> str:
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in experiment_name).strip("-").lower()
    return f"{prefix}-{stem or 'experiment'}".strip("-")[:MAX_STEM].rstrip("-")
