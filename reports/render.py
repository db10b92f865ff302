"""The report of a group of jobs, read from the tracking server alone."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from reports.comparison.arms import job_of
from reports.comparison.comparison import compare
from reports.comparison.equal_work import Kind
from reports.comparison.missing_data import gaps
from reports.comparison.selected_jobs import with_common_arms
from reports.comparison_report import comparison_report
from reports.formats.report import Read, Report, saying_what_is_missing
from reports.probe.projections import is_of_probes
from reports.probe_report import probe_report
from reports.report_data import Reader
from reports.sweep.sweep import is_of_sweep
from reports.sweep.sweep_spec import asked_of
from reports.sweep.trials import CALIBRATION_COLUMNS
from reports.sweep_report import SweepRead, sweep_report
from tracking.groups.sweep_file import FILE
from tracking.queries import job_tables
from training.contract.errors import InputError

_MOST_CURVES = 300
"""Trials whose curves are read; only one chart shows them."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How a comparison is to be made, otherwise than the jobs themselves say."""

    baseline: str | None = None
    """Label of the arm that the others are compared with, or the name of one of its jobs."""
    allowed: Set[Kind] = frozenset()
    """In what the work may differ."""


def render(client: MlflowClient, group: str, title: str, wanted: Wanted | None = None) -> Report:
    """Return the report of a group; what cannot be read beside the jobs' table is told as missing.

    Raises `TrackingError` when the server does not give that table.
    """
    reader = Reader(client)
    table, parent = job_tables.jobs(client, group), reader.parent_run(group)
    if is_of_sweep(table) or (parent and parent.data.tags.get("platform.verb") == "sweep"):
        _refuse(wanted, f"group '{group}' is a sweep")
        swept = _read_sweep(reader, table, parent)
        return saying_what_is_missing(sweep_report(swept, group, title), swept.missing)
    if is_of_probes(table):
        _refuse(wanted, f"group '{group}' holds probes")
        read = _read(reader, table, group, Wanted())
        return saying_what_is_missing(probe_report(read, title), read.missing)
    return _compared(reader, table, group, title, wanted or Wanted())


def render_chosen(
    client: MlflowClient, table: pd.DataFrame, title: str, wanted: Wanted, names: Sequence[str] = ()
) -> Report:
    """Return the comparison of any jobs, `job_tables.jobs`' table of them.

    Of the groups among `names`, by which the jobs were chosen, all jobs are meant: deleted ones are told as missing.
    Raises `TrackingError` and `InputError`.
    """
    reader = Reader(client)
    whole = table[table["group"].isin(names)]
    reader.note_deleted(dict(zip(whole["group"], whole["experiment_id"], strict=True)))
    groups = ", ".join(sorted(set(table["group"].dropna())))
    return _compared(reader, with_common_arms(table), groups, title, wanted)


def _compared(reader: Reader, table: pd.DataFrame, group: str, title: str, wanted: Wanted) -> Report:
    read = _read(reader, table, group, wanted)
    return saying_what_is_missing(comparison_report(read, title), read.missing)


def _refuse(wanted: Wanted | None, what: str) -> None:
    if wanted and (wanted.baseline or wanted.allowed):
        raise InputError(f"baseline and allow are for comparisons, and {what}.")


def _read(reader: Reader, table: pd.DataFrame, group: str, wanted: Wanted) -> Read:
    comparison = compare(table, group, baseline=wanted.baseline, allowed=wanted.allowed)
    first = next((job for arm in comparison.arms for job in arm.succeeded), None)
    return Read(
        table=table,
        comparison=comparison,
        curves=reader.histories([job for arm in comparison.arms for job in arm.succeeded], ["loss"]),
        environment=reader.environment(first.run_id) if first else {},
        tracking_uri=reader.client.tracking_uri,
        missing=(*gaps(comparison), *reader.missing),
    )


def _read_sweep(reader: Reader, table: pd.DataFrame, parent: Run | None) -> SweepRead:
    told = reader.artifact(parent.info.run_id, FILE) if parent else {}
    jobs = [job_of(row) for row in table.to_dict("records")]
    first = next((job for job in jobs if job.succeeded), None)
    calibrations = [job for job in jobs if job.text.get("role") == "calibration"]
    trials = [job for job in jobs if job.text.get("role") == "trial"][:_MOST_CURVES]
    metric = asked_of(told).metric
    return SweepRead(
        table=table,
        told=told,
        calibrations=reader.histories(calibrations, [f"calibration/{c}" for c in CALIBRATION_COLUMNS]),
        curves=reader.histories(trials, [metric]) if metric else {},
        environment=reader.environment(first.run_id) if first else {},
        tracking_uri=reader.client.tracking_uri,
        missing=reader.missing,
    )
