"""Reports of groups of jobs and of whole experiments, read from the tracking server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from judging.design import Design
from reports.budget import with_budget_end
from reports.charts.report_charts import comparison_charts, probe_charts, training_charts
from reports.charts.sweep_charts import sweep_charts
from reports.charts.sweep_importance import importance_note
from reports.comparison.arms import Job, job_of
from reports.comparison.comparison import Comparison, compare
from reports.comparison.equal_work import Kind
from reports.comparison.missing_data import missing_data
from reports.comparison.report import Source, comparison_report
from reports.comparison.selected_jobs import with_common_arms
from reports.model.report import Report
from reports.overview.overview import Overview, overview_of
from reports.overview.report import overview_report
from reports.probe.job_spreads import job_spreads
from reports.probe.projections import is_probe_table, probes_of
from reports.probe.report import probe_report
from reports.report_data import Reader
from reports.spot.recorded import discounts_in
from reports.sweep.report import sweep_report
from reports.sweep.sweep import is_sweep_table, sweep_of
from reports.sweep.sweep_spec import read_spec
from reports.sweep.trials import CALIBRATION_COLUMNS
from reports.training.report import is_one_training, training_report, with_neutral_label
from tracking.groups.plan_file import SWEEP_FILE, read_design
from tracking.queries import job_tables
from training.contract.errors import InputError

_MAX_CURVES = 300
"""Largest number of trials whose curves are read; only one chart shows them."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison that override the jobs' own tags."""

    baseline: str | None = None
    """Label of the arm that the others are compared with, or the name of one of its jobs."""
    allowed: Set[Kind] = frozenset()
    """Kinds of differences in the work that are accepted."""


def render(client: MlflowClient, group: str, title: str, options: CompareOptions | None = None) -> Report:
    """Return the report of a group. Data that cannot be read is reported as missing, except the table of jobs.

    Raises `TrackingError` if that table cannot be read, and `InputError` for options that do not fit the group.
    """
    reader = Reader(client)
    table, parent = job_tables.jobs(client, group), reader.parent_run(group)
    return with_budget_end(_report(reader, table, parent, group, title, options), parent)


def _report(
    reader: Reader, table: pd.DataFrame, parent: Run | None, group: str, title: str, options: CompareOptions | None
) -> Report:
    if is_sweep_table(table) or (parent and parent.data.tags.get("platform.verb") == "sweep"):
        _refuse(options, f"group '{group}' is a sweep")
        return _sweep_report(reader, table, parent, group, title)
    if is_probe_table(table):
        _refuse(options, f"group '{group}' contains probes")
        return _probe_report(reader, table, group, title)
    design = read_design(parent.data.tags) if parent else None
    return _comparison_report(reader, table, group, title, options or CompareOptions(), design)


def render_chosen(
    client: MlflowClient, table: pd.DataFrame, title: str, options: CompareOptions, names: Sequence[str] = ()
) -> Report:
    """Return the comparison of any jobs, given their table from `job_tables.jobs`.

    `names` are the runs, jobs and groups that the user selected. A group stands for all its jobs, so its deleted jobs
    are reported as missing. Raises `TrackingError` and `InputError`.
    """
    reader = Reader(client)
    whole = table[table["group"].isin(names)]
    reader.note_deleted(dict(zip(whole["group"], whole["experiment_id"], strict=True)))
    groups = sorted(set(table["group"].dropna()))
    is_one_group = len(groups) == 1 and bool(table["group"].notna().all())
    parent = reader.group_run(groups[0]) if is_one_group else None
    design = read_design(parent.data.tags) if parent else None
    is_selection = not is_one_group or design is not None
    title_of_groups, with_arms = ", ".join(groups), with_common_arms(table)
    return _comparison_report(reader, with_arms, title_of_groups, title, options, design, is_selection=is_selection)


def render_overview(client: MlflowClient, *names: str) -> tuple[Overview, Report]:
    """Return the overview of the first of these MLflow experiments that exists, and its report.

    Raises `InputError` if none of the experiments exists, and `TrackingError` if the server does not answer.
    """
    experiment = job_tables.experiment_named(client, *names)
    id = str(experiment.experiment_id)
    overview = overview_of(job_tables.experiment_runs(client, id), experiment.name, id)
    return overview, overview_report(overview, str(client.tracking_uri))


def _refuse(options: CompareOptions | None, reason: str) -> None:
    if options and (options.baseline or options.allowed):
        raise InputError(f"baseline and allow apply to comparisons only: {reason}.")


def _comparison_report(
    reader: Reader,
    table: pd.DataFrame,
    group: str,
    title: str,
    options: CompareOptions,
    design: Design | None = None,
    *,
    is_selection: bool = False,
) -> Report:
    comparison = compare(
        table,
        group,
        baseline=options.baseline,
        allowed=options.allowed,
        design=design,
        is_selection=is_selection,
    )
    curves, source = _read(reader, table, comparison, title)
    if is_one_training(comparison):
        return training_report(comparison, training_charts(with_neutral_label(comparison), curves), source)
    return comparison_report(comparison, comparison_charts(comparison, curves), source)


def _probe_report(reader: Reader, table: pd.DataFrame, group: str, title: str) -> Report:
    comparison = compare(table, group)
    curves, source = _read(reader, table, comparison, title)
    similar = reader.similar_jobs(comparison.jobs)
    probes = probes_of(table, group, curves, job_spreads(similar), discounts_in(similar))
    return probe_report(probes, probe_charts(probes, comparison, curves), source)


def _sweep_report(reader: Reader, table: pd.DataFrame, parent: Run | None, group: str, title: str) -> Report:
    document = reader.artifact(parent.info.run_id, SWEEP_FILE) if parent else {}
    jobs = [job_of(row) for row in table.to_dict("records")]
    calibrations = [job for job in jobs if job.text.get("role") == "calibration"]
    trials = [job for job in jobs if job.text.get("role") == "trial"][:_MAX_CURVES]
    metric = read_spec(document).metric
    points = reader.histories(calibrations, [f"calibration/{c}" for c in CALIBRATION_COLUMNS])
    curves = reader.histories(trials, [metric]) if metric else {}
    design = read_design(parent.data.tags) if parent else None
    sweep = sweep_of(table, group, document, points, curves, design)
    source = _source(reader, table, title, [job for job in jobs if job.succeeded])
    return sweep_report(sweep, sweep_charts(sweep), source, importance_note(sweep))


def _read(
    reader: Reader, table: pd.DataFrame, comparison: Comparison, title: str
) -> tuple[Mapping[str, pd.DataFrame], Source]:
    """Return the loss curves by run id, and the report's other source data."""
    succeeded = [job for arm in comparison.arms for job in arm.succeeded]
    curves = reader.histories(succeeded, ["loss"])
    return curves, _source(reader, table, title, succeeded, missing_data(comparison))


def _source(
    reader: Reader, table: pd.DataFrame, title: str, succeeded: Sequence[Job], missing: Sequence[str] = ()
) -> Source:
    """Return the report's source data. Call this last: it includes the list of data that `reader` could not read."""
    environment = reader.environment(succeeded[0].run_id) if succeeded else {}
    return Source(
        title=title,
        tracking_uri=str(reader.client.tracking_uri),
        environment=environment,
        table=table,
        missing=(*missing, *reader.missing),
    )
