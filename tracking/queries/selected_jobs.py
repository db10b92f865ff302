"""Select jobs by a run's id, a job's name, a group's id or the run of a group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from tracking.queries.job_tables import quoted, runs_where, table_of
from tracking.server.errors import translated
from training.contract.errors import InputError

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_IDS_PER_CALL = 200


def chosen_jobs(client: MlflowClient, names: Sequence[str]) -> pd.DataFrame:
    """Return the table of all jobs that `names` select, oldest first and without duplicates; see `job_tables.jobs`.

    Raises `InputError` for an unknown name, and `TrackingError` if the tracking server does not answer.
    """
    listed = _listed(client, [name for name in names if _RUN_ID.fullmatch(name)])
    runs = {run.info.run_id: run for name in names for run in _runs_of(client, name, listed)}
    return table_of(sorted(runs.values(), key=lambda run: run.info.start_time))


def _listed(client: MlflowClient, run_ids: Sequence[str]) -> dict[str, Run]:
    """Return the active runs with these ids. Each request asks for `_IDS_PER_CALL` of them."""
    runs: dict[str, Run] = {}
    for at in range(0, len(run_ids), _IDS_PER_CALL):
        ids = ", ".join(map(quoted, run_ids[at : at + _IDS_PER_CALL]))
        runs |= {run.info.run_id: run for run in runs_where(client, f"attributes.run_id IN ({ids})")}
    return runs


def _runs_of(client: MlflowClient, name: str, listed: Mapping[str, Run]) -> list[Run]:
    if _RUN_ID.fullmatch(name):
        return _job_runs(client, listed.get(name) or _run(client, name))
    runs = _jobs_with(client, "group", name) or _jobs_with(client, "job_name", name)
    if not runs:
        raise InputError(f"runs: '{name}' is not a run, job or group on the tracking server.")
    return runs


def _jobs_with(client: MlflowClient, tag: str, value: str) -> list[Run]:
    return runs_where(client, f"tags.`platform.{tag}` = {quoted(value)} and tags.`platform.kind` = 'job'")


def _run(client: MlflowClient, run_id: str) -> Run:
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            raise InputError(f"runs: the tracking server has no run '{run_id}'.") from error
        raise translated(error, client.tracking_uri, task=f"show run {run_id}") from error
    if run.info.lifecycle_stage == "deleted":
        raise InputError(f"runs: run '{run_id}' is deleted; restore it with `mlflow runs restore --run-id {run_id}`.")
    return run


def _job_runs(client: MlflowClient, run: Run) -> list[Run]:
    """Return a job's own run, or the runs of the jobs under a group's run."""
    kind, group = run.data.tags.get("platform.kind"), run.data.tags.get("platform.group")
    if kind == "job":
        return [run]
    if group and (runs := _jobs_with(client, "group", group)):
        return runs
    subject = f"the run of group '{group}', which has no jobs" if group else "not the run of a job or of a group"
    raise InputError(f"runs: run '{run.info.run_id}' is {subject}.")
