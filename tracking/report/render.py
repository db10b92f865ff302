"""The report of a group of jobs, read from the tracking server alone."""

from __future__ import annotations

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from tracking import query
from tracking.report.arms import Job, job_of
from tracking.report.comparison import Comparison, compare
from tracking.report.comparison_report import comparison_report
from tracking.report.forms import Read, Report
from tracking.report.probe_report import probe_report
from tracking.report.probes import is_of_probes
from tracking.report.sweep import is_of_sweep
from tracking.report.sweep_asked import asked_of
from tracking.report.sweep_report import SweepRead, sweep_report
from tracking.report.trials import CALIBRATION_COLUMNS
from tracking.sweep_file import FILE

_MOST_CURVES = 300
"""Trials whose curves are read, each two calls to the server; only one chart shows them."""


def render(client: MlflowClient, group: str, title: str) -> Report:
    """Return the report of a group. Raises `TrackingError` when the server does not answer."""
    table, parent = query.jobs(client, group), query.parent_run(client, group)
    if is_of_sweep(table) or (parent and parent.data.tags.get("platform.verb") == "sweep"):
        return sweep_report(_read_sweep(client, table, parent), group, title)
    comparison = compare(table, group)
    first = next((job for arm in comparison.arms for job in arm.succeeded), None)
    read = Read(
        table=table,
        comparison=comparison,
        curves=_curves(client, comparison),
        environment=query.environment(client, first.run_id) if first else {},
        tracking_uri=client.tracking_uri,
    )
    return probe_report(read, title) if is_of_probes(table) else comparison_report(read, title)


def _read_sweep(client: MlflowClient, table: pd.DataFrame, parent: Run | None) -> SweepRead:
    told = query.json_artifact(client, parent.info.run_id, FILE) if parent else {}
    jobs = [job_of(row) for row in table.to_dict("records")]
    first = next((job for job in jobs if job.succeeded), None)
    calibrations = [job for job in jobs if job.text.get("role") == "calibration"]
    trials = [job for job in jobs if job.text.get("role") == "trial"][:_MOST_CURVES]
    metric = asked_of(told).metric
    return SweepRead(
        table=table,
        told=told,
        calibrations={
            job.run_id: _history(client, job, [f"calibration/{c}" for c in CALIBRATION_COLUMNS]) for job in calibrations
        },
        curves={job.run_id: _history(client, job, [metric]) for job in trials} if metric else {},
        environment=query.environment(client, first.run_id) if first else {},
        tracking_uri=client.tracking_uri,
    )


def _curves(client: MlflowClient, comparison: Comparison) -> dict[str, pd.DataFrame]:
    return {job.run_id: _history(client, job, ["loss"]) for arm in comparison.arms for job in arm.succeeded}


def _history(client: MlflowClient, job: Job, keys: list[str]) -> pd.DataFrame:
    return query.history(client, job.run_id, keys, job.number("training_start_time"))
