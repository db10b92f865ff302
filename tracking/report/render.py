"""The report of a group of jobs, read from the tracking server alone."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from tracking import query
from tracking.histories import histories
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
"""Trials whose curves are read; only one chart shows them."""


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
        calibrations=_histories(client, calibrations, [f"calibration/{c}" for c in CALIBRATION_COLUMNS]),
        curves=_histories(client, trials, [metric]) if metric else {},
        environment=query.environment(client, first.run_id) if first else {},
        tracking_uri=client.tracking_uri,
    )


def _curves(client: MlflowClient, comparison: Comparison) -> dict[str, pd.DataFrame]:
    return _histories(client, [job for arm in comparison.arms for job in arm.succeeded], ["loss"])


def _histories(client: MlflowClient, jobs: Sequence[Job], keys: Sequence[str]) -> dict[str, pd.DataFrame]:
    return histories(client, {job.run_id: job.number("training_start_time") for job in jobs}, keys)
