"""Groups: a command's jobs, under one MLflow parent run; and the one run of each group and of each job.

A group is open until its last job has ended. A launcher that is killed leaves its group open, and the same command
resumes it: it follows running jobs, keeps ended ones, and starts only the missing ones.

However many launchers open a run at the same time, it is opened once. MLflow has no unique names for runs, so each
launcher first creates a claim: a run that no table shows. Then it looks for other claims. The launcher whose claim has
the lowest run id makes its claim the run; all others mark theirs as duplicates and use that run. Clocks do not matter.
This is mutual exclusion by reads and writes, as in Lamport's bakery (Communications of the ACM 17(8), 1974): a launcher
decides only after a search that began after its claim was active, so of two launchers at least one sees the other.
Launchers with the same state folder take turns, by a lock, and never see each other's claims.
"""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from mlflow.entities import Experiment, Run, ViewType
from mlflow.entities import RunStatus as Status
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from state.home import home, home_id
from state.locks import held_lock
from tracking.queries.job_tables import (
    all_experiment_ids,
    counted_run,
    has_ended,
    pages,
    quoted,
    tagged,
)
from tracking.server.store import Store
from training.contract.errors import InputError

SEED_OFFSET = "platform.seed_offset"
"""Tag of a group with the number that its jobs add to the experiment's seed."""
GROUP_SEEDS = 2_000
"""Distance between the seeds of two groups: more than a group uses."""
MAX_STEM = 24
"""Characters of a group's id before its time, unless the user's prefix is longer. SageMaker allows 63 for the name of a
job, which begins with the id."""


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
    seed_offset: int = 0
    """Number that its jobs add to the experiment's seed, unless the user set that. Fixed when the group opens."""

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
        offset = _offset(open_runs[0]) if open_runs else _new_offset(store, experiment_id, experiment_name, verb)
        new_id = _new_id(_stem(experiment_name, prefix))
        group_id = open_runs[0].data.tags["platform.group"] if open_runs else new_id
        all_tags = {
            **(tags or {}),
            "platform.kind": "group",
            "platform.group": group_id,
            "platform.group_key": key,
            "platform.group_state": "open",
            "platform.experiment": experiment_name,
            "platform.verb": verb,
            SEED_OFFSET: str(offset),
            MLFLOW_RUN_NAME: f"{verb} {experiment_name}".strip(),
        }
        if open_runs:
            run_id = _resume(store, open_runs, all_tags)
        else:
            # A launcher on another machine may open the group at the same time: then its run and its id count.
            identity = {name: all_tags[name] for name in ("platform.group_key", "platform.group_state")}
            run = find_or_open(store, Subject(experiment_id, identity, all_tags), os.environ.get("MLFLOW_RUN_ID"))
            run_id, group_id, offset = str(run.info.run_id), run.data.tags["platform.group"], _offset(run)
    continued = group_id != new_id
    group = Group(group_id, run_id, experiment_id, continued=continued, experiment_name=experiment_name, verb=verb)
    return replace(group, seed_offset=offset)


def close_group(store: Store, group: Group, status: str, note: str = "") -> None:
    """Close the group, and end its parent run with `status`: FINISHED, FAILED or KILLED.

    `note` is the parent run's description if no report writes one.
    """
    store.tag(group.run_id, {"platform.group_state": "closed", **({MLFLOW_RUN_NOTE: note} if note else {})})
    store.call(store.client.set_terminated, group.run_id, status)


def planned_group(store: Store, experiment_name: str, verb: str, key: str | None) -> tuple[str | None, int]:
    """Return the id of the open group that `open_group` would continue, or None; and the seed offset."""
    if (experiment_id := existing_experiment_id(store, experiment_name)) is None:
        return None, 0
    if key and (runs := _open_runs(store, experiment_id, key)):
        return runs[0].data.tags["platform.group"], _offset(runs[0])
    return None, _new_offset(store, experiment_id, experiment_name, verb)


def _offset(run: Run) -> int:
    return int(run.data.tags.get(SEED_OFFSET, 0))


def _new_offset(store: Store, experiment_id: str, experiment_name: str, verb: str) -> int:
    """Return the offset to seeds that no group of the experiment has, not even deleted ones; 0 if nothing is judged."""
    judged = ("compare", "sweep")
    if verb not in judged:
        return 0
    runs = search_runs(store, experiment_id, tagged(experiment=experiment_name), ViewType.ALL)
    used = [_offset(run) for run in runs if run.data.tags.get("platform.verb") in ("train", *judged)]
    return max(used, default=-GROUP_SEEDS) + GROUP_SEEDS


def existing_experiment_id(store: Store, name: str) -> str | None:
    """Return the id of the MLflow experiment of a command's runs, or None if it does not exist yet."""
    if experiment_id := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        store.subject = f"experiment {experiment_id}"
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
        subject = f"group '{group_id}'" if group_id else f"jobs of experiment '{experiment_name}'"
        if deleted := store.call(store.client.search_runs, experiments, query, ViewType.DELETED_ONLY, max_results=1):
            restore = f"mlflow runs restore --run-id {deleted[0].info.run_id}"
            raise InputError(f"the run of {subject} is deleted: restore it with `{restore}`.")
        readable = f" that user '{store.user}' may read" if store.user else ""
        raise InputError(f"the tracking server {store.uri} has no {subject}{readable}.")
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


def child_runs(store: Store, group: Group) -> dict[str, Run]:
    """Return the runs of the group's jobs by job name. Those under an earlier parent run are moved to this one."""
    every = search_runs(store, group.experiment_id, tagged(kind="job", group=group.id))
    runs = {run.data.tags["platform.job_name"]: run for run in every}
    for run in runs.values():
        if run.data.tags.get(MLFLOW_PARENT_RUN_ID) != group.run_id:
            store.tag(run.info.run_id, {MLFLOW_PARENT_RUN_ID: group.run_id})
    return runs


def _experiment_id(store: Store, name: str) -> str:
    existing = partial(existing_experiment_id, store, name)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or name
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
    group = Group(group_id, run_id, experiment_id, continued=True, experiment_name=experiment_name, verb=verb)
    return replace(group, seed_offset=_offset(runs[-1]))


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
    stem = _stem(experiment_name, prefix)
    return f"{stem}-0000000000" if len(stem) > MAX_STEM else f"{stem}-000000-000000-0000"


def _new_id(stem: str) -> str:
    if len(stem) > MAX_STEM:
        return f"{stem}-{int(time.time()):x}{secrets.token_hex(1)}"
    return f"{stem}-{datetime.now(UTC):%y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _stem(experiment_name: str, prefix: str) -> str:
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in experiment_name).strip("-").lower()
    return f"{prefix}-{stem or 'experiment'}".strip("-")[: max(MAX_STEM, len(prefix))].rstrip("-")


KIND = "platform.kind"
CLAIM = "claim"
"""Start of the kind of a run that is not opened yet. Its state, the claiming home and an id follow, with blanks."""
DUPLICATE = "duplicate"
"""Kind of a run that is not used, because another launcher opened the run of the same job or group."""
DEAD_SECONDS = 30.0
"""A claim of another machine that does not change for so long was left by a launcher that died."""

_ACTIVE, _WAITING = "active", "waiting"
_PAUSE_SECONDS = 0.2


def launch_lock() -> AbstractContextManager[None]:
    """Keep other launchers with the same state folder from opening a run during a `with` block."""
    return held_lock(home() / "launch.lock")


@dataclass(frozen=True)
class Subject:
    """Job or group for which a run is opened."""

    experiment_id: str
    identity: Mapping[str, str]
    """Tags that all of its runs share, and no other run has."""
    tags: Mapping[str, str]
    """All tags of a new run, with its kind."""


def find_or_open(
    store: Store, subject: Subject, own_run_id: str | None = None, *, claimed_by: str | None = None
) -> Run:
    """Return the run of `subject`, or open it.

    The caller holds the lock of `claimed_by`, which is the `launch_lock` of this state folder unless specified.
    `own_run_id` is a run to open instead of a new one. It becomes a duplicate if another launcher was faster.
    """
    opened = [run for run in _search(store, subject) if run.data.tags.get(KIND) == subject.tags[KIND]]
    if opened and not own_run_id:
        return counted_run(opened)
    claimed_by = claimed_by or home_id(home())
    claimed_by = f"{claimed_by} {uuid.uuid4().hex}"
    return _settle(store, subject, _create(store, subject, own_run_id, claimed_by), claimed_by)


def mark_duplicate(store: Store, run: Run, counted: str) -> None:
    """Take a run out of all tables, because the run `counted` is of the same job or group."""
    note = f"Run `{counted}` is of the same job. This one does not count: launchers opened both."
    store.tag(run.info.run_id, {KIND: DUPLICATE, MLFLOW_RUN_NOTE: note})
    if not has_ended(run):
        store.call(store.client.set_terminated, run.info.run_id, "KILLED")


def _settle(store: Store, subject: Subject, run_id: str, claimed_by: str) -> Run:
    """Return the subject's run: the claim `run_id`, or another launcher's."""
    state, unchanged_since = _ACTIVE, dict[tuple[str, str], float]()

    def is_dead(run: Run) -> bool:
        kind = run.data.tags[KIND]
        if kind.split()[2] == claimed_by.split()[0]:
            return True  # its launcher had the lock that is held here
        since = unchanged_since.setdefault((run.info.run_id, kind), time.monotonic())
        return time.monotonic() - since > DEAD_SECONDS

    while True:
        runs = {run.info.run_id: run for run in _search(store, subject)}
        own = runs.pop(run_id, None) or store.call(store.client.get_run, run_id)
        if opened := [run for run in runs.values() if run.data.tags.get(KIND) == subject.tags[KIND]]:
            winner = counted_run(opened)
            mark_duplicate(store, own, winner.info.run_id)
            return winner
        rivals = [run for run in runs.values() if run.data.tags.get(KIND, "").startswith(CLAIM)]
        alive = [run for run in rivals if not is_dead(run)]
        should_wait = any(run.info.run_id < run_id for run in alive)
        if should_wait == (state == _ACTIVE):  # the state changes
            state = _WAITING if should_wait else _ACTIVE
            store.tag(run_id, {KIND: f"{CLAIM} {state} {claimed_by}"})
            if state == _ACTIVE:
                continue
        elif not should_wait and not any(_ACTIVE in run.data.tags[KIND].split() for run in alive):
            store.tag(run_id, {KIND: subject.tags[KIND]})
            for run in rivals:
                mark_duplicate(store, run, run_id)
            return own
        time.sleep(_PAUSE_SECONDS)


def _create(store: Store, subject: Subject, own_run_id: str | None, claimed_by: str) -> str:
    kind = f"{CLAIM} {_ACTIVE} {claimed_by}"
    tags = {**subject.tags, KIND: kind}
    if own_run_id:
        store.tag(own_run_id, tags)
        return own_run_id

    def existing() -> Run | None:
        query = f'tags."{KIND}" = {quoted(kind)}'
        return next(iter(store.client.search_runs([subject.experiment_id], query, max_results=1)), None)

    run = store.create(store.client.create_run, subject.experiment_id, tags=tags, existing=existing)
    return str(run.info.run_id)


def _search(store: Store, subject: Subject) -> list[Run]:
    query = " and ".join(f'tags."{name}" = {quoted(value)}' for name, value in subject.identity.items())
    return list(store.call(store.client.search_runs, [subject.experiment_id], query))
