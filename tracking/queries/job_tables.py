"""Read a group's jobs and a job's metrics from the tracking server as tables.

Column names follow one rule: a tag loses its prefix `platform.`, and every other `.` or `/` becomes `_`
(`hp.batch_size` -> `hp_batch_size`, `time/load_seconds` -> `time_load_seconds`).

Every function that calls the server raises `TrackingError` if it fails.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pandas as pd
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts, list_artifacts
from mlflow.entities import Experiment, Run, RunStatus, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList

from tracking.queries.metric_histories import number
from tracking.server.store import is_foreign, server_errors, translated
from training.contract.errors import InputError, nearest

# A progress bar for one small file only clutters the terminal. MLflow reads the variable at each download.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


ARM, VERDICT = "arm", "verdict"
"""Tags of a job's run that people read first; MLflow's UI groups the repeats by them."""
PENDING = "pending"
"""Verdict until the report."""
DETAILS = "platform.details"
"""Tag of a job's run with further tags as JSON: no query filters on them, and only reports read them."""
TEXT_COLUMNS = ["run_id", "experiment_id", "group", "status", "arm", "baseline", "repeat", "job_name"]
"""Text columns of every table of jobs; None where a run has no value."""
NUMBER_COLUMNS = ["training_start_time", "hp_batch_size", "hp_learning_rate", "cost_billable_seconds"]
"""Number columns of every table of jobs; NaN where a run has no value. All other metrics are numbers, too."""
LOSSES = ("loss", "train_loss", "eval_loss")
DIVERGED = "diverged"
"""Text column that exists if the last value of any of `LOSSES` in any run is not finite. In the table, such a number
looks like a missing one."""
NOT_SET = "None"
"""Parameter of a field that another arm sets, and that has no value in this one."""
_MAX_LISTED = 10
_RUN_ID = re.compile(r"[0-9a-f]{32}")
Item = TypeVar("Item")


def jobs(client: MlflowClient, group: str) -> pd.DataFrame:
    """Return one row for each job of a group, oldest first."""
    return table_of(runs_where(client, tagged(kind="job", group=group)))


def chosen_jobs(client: MlflowClient, names: Sequence[str]) -> pd.DataFrame:
    """Return the table of all jobs that `names` select, oldest first and without duplicates; see `job_tables.jobs`.

    Imported jobs, whose runs start when they are recorded, come first in the order of `names`.
    Raises `InputError` for an unknown name.
    """
    runs = {run.info.run_id: run for name in names for run in _runs_of(client, name)}
    return table_of(sorted(runs.values(), key=lambda run: "platform.job_arn" in run.data.tags or run.info.start_time))


def similar_jobs(client: MlflowClient, jobs: Iterable[Mapping[str, str | None]]) -> pd.DataFrame:
    """Return the table of all successful jobs with the models and instance types of `jobs`, in their experiments.

    `jobs` are text columns of rows of `jobs`. A job without a model or an instance type has no similar jobs.
    """
    columns = ("experiment_id", "instance_type", "hp_model")
    machines = {tuple(job.get(column) or "" for column in columns) for job in jobs}
    return ended_jobs(client, *(machine for machine in machines if all(machine)))


def ended_jobs(client: MlflowClient, *machines: tuple[str, ...]) -> pd.DataFrame:
    """Return the table of the successful jobs of MLflow experiments on instance types, also with models."""
    runs: list[Run] = []
    for experiment_id, instance_type, *models in sorted(machines):
        query = f"{tagged(kind='job', instance_type=instance_type)} and attributes.status = 'FINISHED'"
        query += "".join(f" and params.`hp.model` = {quoted(model)}" for model in models)
        runs += runs_where(client, query, [experiment_id])
    return table_of(runs)


def table_of(runs: Iterable[Run]) -> pd.DataFrame:
    """Return one row for each job, see `jobs`."""
    frame = pd.DataFrame(map(_row, runs))
    # The fixed columns first, numbers as floats and missing text as None.
    frame = frame.reindex(columns=[*dict.fromkeys([*TEXT_COLUMNS, *NUMBER_COLUMNS, *sorted(frame.columns)])])
    for name in NUMBER_COLUMNS:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    for name in TEXT_COLUMNS:
        frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
    return frame


def _row(run: Run) -> dict[str, object]:
    info, data, all_tags = run.info, run.data, tags_of(run)
    own = {key: value for key, value in all_tags.items() if key.startswith("platform.") or key == ARM}
    tags = {key.removeprefix("platform."): value for key, value in own.items() if key != DETAILS}
    numbers = {key: number(value) for key, value in data.metrics.items()}
    diverged = any(not math.isfinite(numbers.get(loss, 0.0)) for loss in LOSSES)
    tags |= {DIVERGED: "true"} if diverged else {}
    parameters = {name: value for name, value in data.params.items() if value != NOT_SET}
    columns: Mapping[str, object] = {**parameters, **numbers, **tags}
    return {
        **{column_of(key): value for key, value in columns.items()},
        "run_id": info.run_id,
        "run_name": info.run_name,
        "experiment_id": info.experiment_id,
        "status": info.status,
        "start_time_ms": info.start_time,
    }


def tags_of(run: Run) -> dict[str, str]:
    """Return a run's tags and its details."""
    return {**run.data.tags, **json.loads(run.data.tags.get(DETAILS, "{}"))}


def details_tag(details: Mapping[str, str]) -> dict[str, str]:
    """Return the tag with these details. Long ones are cut, because the server cuts long tags."""
    return {DETAILS: json.dumps({key: value[:1000] for key, value in details.items()}, ensure_ascii=False)}


def column_of(key: str) -> str:
    """Return the column of a metric, a parameter or a tag without its prefix."""
    return key.replace(".", "_").replace("/", "_")


def counted_run(runs: Iterable[Run]) -> Run:
    """Return the run that counts among runs of the same job: an ended one if there is one, and then the oldest.

    Raises ValueError without runs.
    """
    return min(runs, key=lambda run: (not has_ended(run), run.info.start_time or 0, run.info.run_id))


def has_ended(run: Run) -> bool:
    return bool(RunStatus.is_terminated(RunStatus.from_string(run.info.status)))


def _runs_of(client: MlflowClient, name: str) -> list[Run]:
    """Return a job's own run, or the runs of the jobs of a group, by the id of a run, a job's name or a group's id."""
    run = run_named(client, name) if _RUN_ID.fullmatch(name) else None
    if run and run.data.tags.get("platform.kind") == "job":
        return [run]
    group = run.data.tags.get("platform.group") if run else name
    runs = runs_where(client, tagged(kind="job", group=group)) if group else []
    if not runs and not run:
        runs = runs_where(client, tagged(kind="job", job_name=name))
    if not runs:
        raise InputError(f"runs: '{name}' is not a job, nor a group with jobs, on the tracking server.")
    return runs


def run_named(client: MlflowClient, run_id: str) -> Run:
    """Return a run by its id. Raises `InputError` if it does not exist or is deleted."""
    with server_errors(client, f"show run {run_id}"):
        try:
            run = client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise InputError(f"the tracking server has no run '{run_id}'.") from error
    if run.info.lifecycle_stage == "deleted":
        raise InputError(f"run '{run_id}' is deleted; restore it with `mlflow runs restore --run-id {run_id}`.")
    return run


def runs_where(
    client: MlflowClient, query: str, experiment_ids: Sequence[str] | None = None, *, page_runs: int = 1000
) -> list[Run]:
    """Return the runs that match a filter in MLflow's language, oldest first, in these or in all active experiments."""
    with server_errors(client, f"list the runs where {query}"):
        ids = list(experiment_ids) if experiment_ids is not None else all_experiment_ids(client)
        return list(_runs(client, ids, query, page_runs)) if ids else []


def experiment_runs(client: MlflowClient, experiment_id: str, *, page_runs: int = 500) -> Iterator[Run]:
    """Yield the active runs of an MLflow experiment, oldest first, with one page in memory at a time."""
    with server_errors(client, f"list the runs of experiment {experiment_id}"):
        yield from _runs(client, [experiment_id], "", page_runs)


def _runs(client: MlflowClient, experiment_ids: list[str], query: str, page_runs: int) -> Iterator[Run]:
    order = ["attributes.start_time ASC"]
    return pages(client.search_runs, experiment_ids, query, max_results=page_runs, order_by=order)


def pages(search: Callable[..., PagedList[Item]], *args: Any, **kwargs: Any) -> Iterator[Item]:
    """Yield the results of a search of MLflow's client, with one page in memory at a time."""
    token = None
    while True:
        page = search(*args, page_token=token, **kwargs)
        yield from page
        if not (token := page.token):
            return


def parent_run(client: MlflowClient, group: str) -> Run | None:
    runs = runs_where(client, tagged(kind="group", group=group), page_runs=100)
    # If a launcher died and another one resumed the group, the parent run of the second launcher counts.
    kept = [run for run in runs if run.data.tags.get("platform.group_state") != "continued"]
    return next(iter(reversed(kept or runs)), None)


def deleted_jobs(client: MlflowClient, group: str, experiment_id: str) -> list[str]:
    with server_errors(client, f"list the deleted runs of group {group!r}"):
        runs = client.search_runs([experiment_id], tagged(kind="job", group=group), ViewType.DELETED_ONLY)
    return [str(run.info.run_name) for run in runs]


def experiment_named(client: MlflowClient, *names: str) -> Experiment:
    """Return the first of these MLflow experiments that exists. Raises `InputError` if none does."""
    with server_errors(client, f"find experiment '{names[0]}'"):
        for name in names:
            if (experiment := client.get_experiment_by_name(name)) and experiment.lifecycle_stage == "active":
                return experiment
        known = [each.name for each in client.search_experiments(max_results=1000)]
    listed = f"{', '.join(known[:_MAX_LISTED])}{', ...' if len(known) > _MAX_LISTED else ''}" or "none"
    hint = nearest(names[0], known)
    raise InputError(f"experiment '{names[0]}' does not exist on the tracking server, which has {listed}.{hint}")


def json_artifact(client: MlflowClient, run_id: str, name: str) -> dict[str, Any]:
    """Return the JSON object in a run's artifact; empty if the artifact is missing or not a JSON object."""
    try:
        # By URI, because the client's own method first requests logged models, which servers before MLflow 3 lack.
        path = PurePosixPath(name)
        folder_uri = "/".join([str(client.get_run(run_id).info.artifact_uri), *path.parts[:-1]])
        listed = list_artifacts(artifact_uri=folder_uri, tracking_uri=client.tracking_uri)
        if path.name not in {PurePosixPath(each.path).name for each in listed}:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            uri = f"{folder_uri}/{path.name}"
            file = download_artifacts(artifact_uri=uri, dst_path=folder, tracking_uri=client.tracking_uri)
            content = json.loads(Path(file).read_text("utf-8"))
    except ValueError:
        return {}
    except Exception as error:
        if not is_foreign(error):
            raise
        raise translated(error, client.tracking_uri, task=f"return {name} of run {run_id}") from error
    return content if isinstance(content, dict) else {}


def all_experiment_ids(client: MlflowClient) -> list[str]:
    return [experiment.experiment_id for experiment in pages(client.search_experiments, max_results=1000)]


def tagged(**tags: str) -> str:
    """Return the filter for runs with these tags, whose names are without the prefix `platform.`."""
    return " and ".join(f"tags.`platform.{name}` = {quoted(value)}" for name, value in tags.items())


def quoted(value: str) -> str:
    """Return `value` as a string literal of MLflow's filter language, which has no escapes."""
    if "'" not in value:
        return f"'{value}'"
    if '"' not in value:
        return f'"{value}"'
    raise InputError(f"the name {value!r} contains both kinds of quotes, which the tracking server cannot search for.")
