"""Reports of groups of jobs and of whole experiments, read from the tracking server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from judging.design import Design
from reports.charts.report_charts import comparison_charts, probe_charts
from reports.charts.sweep_charts import sweep_charts
from reports.comparison.checks import CHECKS_FILE, TABLE_FILE, ArmCheck, checks_of
from reports.comparison.comparison import Comparison, Kind, compare, seedless_arms
from reports.comparison.messages import deleted, missing_data
from reports.comparison.report import Source, comparison_report, with_neutral_label
from reports.model.report import Report, Text
from reports.overview import Overview, overview_of, overview_report
from reports.probe.report import is_probe_table, job_spreads, probe_report, probes_of
from reports.sweep.report import sweep_report
from reports.sweep.sweep import is_sweep_table, sweep_of
from sweeps.costs import FIGURES
from tracking.budgets.ledger import end_sentence, read_budget_end
from tracking.groups.plan_file import SWEEP_FILE, read_design
from tracking.groups.planned_job import CHECK
from tracking.queries import job_tables
from tracking.queries.job_tables import similar_jobs
from tracking.queries.metric_histories import histories
from tracking.recorded.arms import with_common_arms
from tracking.recorded.recorded_job import Job, discounts_of, job_of
from tracking.server.store import is_final
from training.contract.errors import InputError, TrackingError
from training.job.tasks import TASKS, Task


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
    table, parent, options = job_tables.jobs(client, group), reader.group_run(group), options or CompareOptions()
    if parent:
        reader.note_deleted({group: parent.info.experiment_id})
    is_sweep = is_sweep_table(table) or (parent is not None and parent.data.tags.get("platform.verb") == "sweep")
    if (is_sweep or is_probe_table(table)) and (options.baseline or options.allowed):
        reason = f"group '{group}' {'is a sweep' if is_sweep else 'contains probes'}"
        raise InputError(f"baseline and allow apply to comparisons only: {reason}.")
    if is_sweep:
        report = _sweep_report(reader, table, parent, group, title)
    elif is_probe_table(table):
        report = _probe_report(reader, table, group, title)
    else:
        design = read_design(parent.data.tags) if parent else None
        report = _comparison_report(reader, table, group, title, options, design)
    return _with_budget_end(report, parent)


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
    title_of_groups, with_arms = ", ".join(groups), with_common_arms(table)
    return _comparison_report(reader, with_arms, title_of_groups, title, options, design, is_selection=True)


def render_overview(client: MlflowClient, *names: str) -> tuple[Overview, Report]:
    """Return the overview of the first of these MLflow experiments that exists, and its report.

    Raises `InputError` if none of the experiments exists, and `TrackingError` if the server does not answer.
    """
    experiment = job_tables.experiment_named(client, *names)
    id = str(experiment.experiment_id)
    overview = overview_of(job_tables.experiment_runs(client, id), experiment.name, id)
    return overview, overview_report(overview, str(client.tracking_uri))


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
    baseline, allowed = options.baseline, options.allowed
    comparison = compare(table, group, baseline=baseline, allowed=allowed, design=design, is_selection=is_selection)
    if any(job.text.get("role") == CHECK for job in comparison.before_trainings):
        comparison = replace(comparison, checks=reader.checks(table, group))
    scripts = [job for arm in comparison.arms for job in arm.succeeded if job.is_script]
    if len(scripts) > len(comparison.arms):
        losses = reader.histories(scripts, ["loss", "eval_loss"])
        comparison = replace(comparison, seedless=seedless_arms(comparison.arms, losses))
    if comparison.is_training:
        comparison = with_neutral_label(comparison)
    curves, source = _read(reader, table, comparison, title)
    return comparison_report(comparison, comparison_charts(comparison, curves), source)


def _probe_report(reader: Reader, table: pd.DataFrame, group: str, title: str) -> Report:
    comparison = compare(table, group)
    curves, source = _read(reader, table, comparison, title)
    similar = reader.similar_jobs(comparison.jobs)
    discounts = discounts_of([job_of(row) for row in similar.to_dict("records")])
    probes = probes_of(table, group, curves, job_spreads(similar), discounts)
    return probe_report(probes, probe_charts(comparison, curves), source)


def _sweep_report(reader: Reader, table: pd.DataFrame, parent: Run | None, group: str, title: str) -> Report:
    document = reader.artifact(parent.info.run_id, SWEEP_FILE, SWEEP_FILE) if parent else {}
    jobs = [job_of(row) for row in table.to_dict("records")]
    calibrations = [job for job in jobs if job.text.get("role") == "calibration"]
    points = reader.histories(calibrations, list(FIGURES))
    design = read_design(parent.data.tags) if parent else None
    sweep = sweep_of(table, group, document, points, design)
    source = _source(reader, table, title, [job for job in jobs if job.succeeded])
    return sweep_report(sweep, sweep_charts(sweep), source)


def _read(
    reader: Reader, table: pd.DataFrame, comparison: Comparison, title: str
) -> tuple[Mapping[str, pd.DataFrame], Source]:
    """Return the loss curves by run id, and the report's other source data."""
    succeeded = [job for arm in comparison.arms for job in arm.succeeded]
    curves = reader.histories(succeeded, ["loss"])
    texts = {arm.label: _texts(reader, arm.succeeded[0]) for arm in comparison.arms if arm.succeeded}
    source = _source(reader, table, title, succeeded, missing_data(comparison))
    return curves, replace(source, texts={label: rows for label, rows in texts.items() if rows})


def _texts(reader: Reader, job: Job) -> list[list[object]]:
    """Return the rows of the table with a model's texts; empty if its task has none."""
    name = TASKS.get(job.text.get("hp_task") or "", Task).texts_table
    table = reader.artifact(job.run_id, f"tables/{name}", "the model's texts") if name else {}
    return list(table.get("data", []))


def _source(
    reader: Reader, table: pd.DataFrame, title: str, succeeded: Sequence[Job], missing: Sequence[str] = ()
) -> Source:
    """Return the report's source data. Call this last: it includes the list of data that `reader` could not read."""
    run_id = succeeded[0].run_id if succeeded else None
    environment = reader.artifact(run_id, "environment.json", "versions and hardware") if run_id else {}
    return Source(
        title=title,
        tracking_uri=str(reader.client.tracking_uri),
        environment=environment,
        table=table,
        missing=(*missing, *reader.missing),
    )


def _with_budget_end(report: Report, parent: Run | None) -> Report:
    """Return the report of a group with what its budget left undone. `parent` is the group's run."""
    end = read_budget_end(parent.data.tags) if parent else None
    if end is None:
        return report
    text = Text(end_sentence(end), "strong")
    figures = {
        "max_usd": end.budget.max_usd,
        "max_billable_seconds": end.budget.max_billable_seconds,
        "spent_billable_instance_seconds": end.spent.seconds,
        "spent_usd": end.spent.usd,
        "jobs_not_started": end.not_started,
    }
    return replace(
        report,
        answer=(*report.answer, text),
        brief=(*report.brief, text),
        summary={**report.summary, "budget_end": figures},
    )


Result = TypeVar("Result")


class Reader:
    """Reader of one tracking server that records which data could not be read.

    Once the server has failed to answer, no further request is sent, because each would wait for its timeout.
    """

    def __init__(self, client: MlflowClient) -> None:
        self.client = client
        self._unread: dict[str, TrackingError] = {}
        """The reason for each kind of data that could not be read."""
        self._unreachable: dict[Literal["runs", "files"], TrackingError] = {}
        self._deleted: list[str] = []

    def histories(self, jobs: Iterable[Job], keys: Sequence[str]) -> dict[str, pd.DataFrame]:
        """Return the histories of these metrics by run id; empty if they cannot be read."""
        starts = {job.run_id: job.number("training_start_time") for job in jobs}
        return self._read("runs", "the curves", partial(histories, self.client, starts, keys), {})

    def artifact(self, run_id: str, name: str, subject: str) -> dict[str, Any]:
        """Return `job_tables.json_artifact`; empty if it cannot be read. `subject` is what the report then lacks."""
        return self._read("files", subject, partial(job_tables.json_artifact, self.client, run_id, name), {})

    def checks(self, table: pd.DataFrame, group: str) -> tuple[ArmCheck, ...]:
        """Return the checks of a group, given its table of jobs."""
        parent = self.group_run(group)
        document = self.artifact(parent.info.run_id, CHECKS_FILE, "the arms of each check") if parent else {}
        return checks_of(table, document, lambda job: self.artifact(job.run_id, TABLE_FILE, "the numbers of a check"))

    def similar_jobs(self, jobs: Sequence[Job]) -> pd.DataFrame:
        """Return the table of all successful jobs with the models and instance types of these jobs, in their
        experiments; empty if it cannot be read."""
        read = partial(similar_jobs, self.client, [job.text for job in jobs])
        return self._read("runs", "the repeats of similar jobs", read, pd.DataFrame())

    def group_run(self, group: str) -> Run | None:
        """Return the group's own run, or None if it cannot be read."""
        return self._read("runs", "the run of the group", lambda: job_tables.parent_run(self.client, group), None)

    def note_deleted(self, groups: Mapping[str, str]) -> None:
        """Record the deleted runs of these groups' jobs; `groups` maps a group to its experiment's id."""

        def read() -> list[str]:
            return [name for group, id in groups.items() for name in job_tables.deleted_jobs(self.client, group, id)]

        self._deleted += self._read("runs", "the list of deleted runs", read, [])

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each reason why data could not be read, and one for deleted runs."""
        subjects: dict[str, list[str]] = {}
        for subject, reason in self._unread.items():
            subjects.setdefault(str(reason).rstrip("."), []).append(subject)
        unread = (f"Missing: {', '.join(names)}. {reason}." for reason, names in subjects.items())
        return (*deleted(self._deleted), *unread)

    def _read(
        self, source: Literal["runs", "files"], subject: str, request: Callable[[], Result], default: Result
    ) -> Result:
        error = self._unreachable.get(source)
        if error is None:
            try:
                return request()
            except TrackingError as raised:
                error = raised
        if not isinstance(error.__cause__, Exception) or not is_final(error.__cause__):
            # Files are read through the server of the runs. Runs are read without the file store.
            self._unreachable |= {"files": error} if source == "files" else {"runs": error, "files": error}
        self._unread.setdefault(subject, error)
        return default
