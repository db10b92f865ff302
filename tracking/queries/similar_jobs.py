"""Find the jobs that are similar to other jobs: those of the same model on the same type of machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from tracking.queries.job_tables import quoted, runs_where, table_of


def similar_jobs(client: MlflowClient, jobs: Iterable[Mapping[str, str | None]]) -> pd.DataFrame:
    """Return the table of all successful jobs with the models and instance types of `jobs`, in their experiments.

    `jobs` are text columns of rows of `job_tables.jobs`. A job without a model or an instance type has no similar jobs.
    Raises `TrackingError` if the server fails.
    """
    columns = ("experiment_id", "hp_model", "instance_type")
    machines = {tuple(job.get(column) or "" for column in columns) for job in jobs}
    runs: list[Run] = []
    for experiment_id, model, instance_type in sorted(machine for machine in machines if all(machine)):
        query = (
            f"tags.`platform.kind` = 'job' and attributes.status = 'FINISHED' and params.`hp.model` = {quoted(model)} "
            f"and tags.`platform.instance_type` = {quoted(instance_type)}"
        )
        runs += runs_where(client, query, [experiment_id])
    return table_of(runs)


def ended_jobs(client: MlflowClient, experiment_id: str, instance_types: Iterable[str]) -> pd.DataFrame:
    """Return the table of all successful jobs of an MLflow experiment on these instance types.

    Raises `TrackingError` if the server fails.
    """
    runs: list[Run] = []
    for instance_type in sorted(set(instance_types)):
        query = (
            "tags.`platform.kind` = 'job' and attributes.status = 'FINISHED' "
            f"and tags.`platform.instance_type` = {quoted(instance_type)}"
        )
        runs += runs_where(client, query, [experiment_id])
    return table_of(runs)
