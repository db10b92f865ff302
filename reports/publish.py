"""Publication of a report: files in a local folder, and an MLflow run with artifacts, metrics and tags."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mlflow.entities import Metric, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from reports.formats.html import html_page
from reports.formats.text import is_ours, markdown, name_with_answer, run_metrics, summary_text
from reports.model.report import Report, values_by_title
from tracking.queries.group_view import write_view
from tracking.queries.job_tables import VERDICT
from tracking.queries.mlflow_ui import job_charts
from tracking.recording.run_artifacts import log_tables
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.contract.plain_text import without_control_characters

HEADLINE = "platform.headline"
"""Tag of a group's run with the answer of its latest report; overviews show it."""


def write(report: Report, folder: Path) -> Path:
    """Write the report's files to `folder` and return the path of the HTML page."""
    files = {"report.html": html_page(report), "report.md": markdown(report)}
    write_files(folder, {**files, "jobs.csv": report.rows_csv, "summary.json": summary_text(report)})
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    for chart in report.charts:
        (plots / f"{chart.name}.png").write_bytes(chart.png)
    return folder / "report.html"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by their names, without the control characters of jobs and other members."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(without_control_characters(text), encoding="utf-8")


def publish(store: Store, run_id: str, report: Report, folder: Path, name: str) -> None:
    """Log the files in `folder`, the comparison table, the report's figures and its answer to a run.

    The answer is written to the run's description and placed before its original `name`, unless a user renamed the run.
    """
    store.call(store.client.log_artifacts, run_id, str(folder), "report")
    table = report.comparison_table
    log_tables(store, run_id, {"comparison.json": values_by_title(table)} if table else {})
    run = store.call(store.client.get_run, run_id)
    tags = {MLFLOW_RUN_NOTE: _note(run, report), HEADLINE: report.headline}
    if is_ours(name, str(run.info.run_name)):
        tags[MLFLOW_RUN_NAME] = name_with_answer(name, report)
    run_tags = [RunTag(key, value) for key, value in tags.items()]
    # At step 0, MLflow draws a bar for each figure. A second point of an unchanged one would turn the bar into a line.
    at_ms, logged = int(time.time() * 1000), run.data.metrics
    changed = {key: value for key, value in run_metrics(report).items() if logged.get(key) != value}
    metrics = [Metric(key, value, at_ms, 0) for key, value in changed.items()]
    store.call(store.client.log_batch, run_id, metrics=metrics, tags=run_tags)
    if run.data.tags.get("platform.group") == report.group:  # the group's own run
        for job_run_id, verdict in report.verdicts.items():
            store.tag(job_run_id, {VERDICT: verdict})
        scores = {metric.name for metric in report.metrics}
        write_view(store, store.call(store.client.get_run, run_id), scores)


def _note(run: Run, report: Report) -> str:
    """Return the report as Markdown. A group's own run also gets a link to its jobs' charts, after the headline."""
    text = markdown(report)
    if run.data.tags.get("platform.group") != report.group:
        return text
    answer, _, rest = text.partition("\n\n")
    return f"{answer}\n\n[Charts of the jobs]({job_charts(run.info.experiment_id, report.group)})\n\n{rest}"


def log_separately(
    store: Store, experiment_id: str, title: str, subjects: Sequence[str], report: Report, folder: Path
) -> None:
    with separate_run(store, experiment_id, title, subjects) as run_id:
        publish(store, run_id, report, folder, f"report {title}")


@contextmanager
def separate_run(store: Store, experiment_id: str, title: str, subjects: Sequence[str]) -> Iterator[str]:
    """Yield the id of a separate run for a report, and end the run: the one that `mlflow run` opened, or a new one.

    `subjects` are the names of the groups, runs or jobs that the report is about. The run ends as FAILED if the server
    rejects a request inside the block.
    """
    tags = {"platform.kind": "report", "platform.report_of": ", ".join(subjects), MLFLOW_RUN_NAME: f"report {title}"}
    if run_id := os.environ.get("MLFLOW_RUN_ID"):
        store.tag(run_id, tags)
    else:
        run_id = str(store.call(store.client.create_run, experiment_id, tags=tags).info.run_id)
    try:
        yield run_id
    except TrackingError:
        with suppress(TrackingError):
            store.call(store.client.set_terminated, run_id, "FAILED")
        raise
    store.call(store.client.set_terminated, run_id, "FINISHED")


@contextmanager
def tolerate_rejection(emit: Callable[[str], None]) -> Iterator[None]:
    """Emit a message instead of raising if the server rejects a report logged inside the block.

    The local report remains. This lets users with read-only permission report on an experiment.
    """
    try:
        yield
    except TrackingError as error:
        emit(f"The report is saved locally but not on the tracking server: {str(error).rstrip('.')}.")
