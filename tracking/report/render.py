"""The report of a group of jobs, read from the tracking server alone."""

from __future__ import annotations

import pandas as pd
from mlflow import MlflowClient

from tracking import query
from tracking.report.comparison import Comparison, compare
from tracking.report.comparison_report import comparison_report
from tracking.report.forms import Read, Report
from tracking.report.probe_report import probe_report
from tracking.report.probes import is_of_probes


def render(client: MlflowClient, group: str, title: str) -> Report:
    """Return the report of a group. Raises `TrackingError` when the server does not answer."""
    table = query.jobs(client, group)
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


def _curves(client: MlflowClient, comparison: Comparison) -> dict[str, pd.DataFrame]:
    jobs = [job for arm in comparison.arms for job in arm.succeeded]
    return {job.run_id: query.history(client, job.run_id, ["loss"], job.number("training_start_time")) for job in jobs}
