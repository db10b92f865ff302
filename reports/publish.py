"""A report goes to a run, and to a folder of this machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mlflow.entities import Metric, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from reports.formats.mlflow_metrics import figures_of
from reports.formats.report import Report
from reports.formats.run_name import answered, is_answered
from tracking.queries.mlflow_ui import job_charts
from tracking.recording.run_tables import log_tables
from tracking.server.store import Store
from training.contract.errors import TrackingError

HEADLINE = "platform.headline"
"""Tag of a group's run: the answer of its latest report, for who looks at many groups."""


def write(report: Report, folder: Path) -> Path:
    """Write the report's files to `folder`, and return the page's path."""
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    page.write_text(report.html, encoding="utf-8")
    (folder / "report.md").write_text(report.markdown, encoding="utf-8")
    (folder / "jobs.csv").write_text(report.jobs_csv, encoding="utf-8")
    (folder / "summary.json").write_text(summary(report), encoding="utf-8")
    for name, png in report.pngs.items():
        (plots / name).write_bytes(png)
    return page


def summary(report: Report) -> str:
    """Return numbers and verdicts as JSON."""
    return json.dumps(report.summary_json, indent=1, ensure_ascii=False)


def publish(store: Store, run_id: str, report: Report, folder: Path, name: str) -> None:
    """Log the files in `folder`, the comparison's table and its figures to a run, and have it tell the answer.

    The answer stands in its description and before its `name`, the one that it began with; a name that somebody gave it
    stays as it is.
    """
    store.call(store.client.log_artifacts, run_id, str(folder), "report")
    log_tables(store, run_id, {"comparison.json": report.table} if report.table else {})
    run = store.call(store.client.get_run, run_id)
    tags = {MLFLOW_RUN_NOTE: _note(run, report), HEADLINE: str(report.summary_json["headline"])[:5000]}
    if is_answered(name, str(run.info.run_name)):
        tags[MLFLOW_RUN_NAME] = answered(name, report)
    told = [RunTag(key, value) for key, value in tags.items()]
    store.call(store.client.log_batch, run_id, metrics=_news(run, figures_of(report)), tags=told)


def _news(run: Run, figures: dict[str, float]) -> list[Metric]:
    """Return points of the figures that the run does not tell yet.

    At step 0, of which MLflow draws bars; of several points at one step the latest counts. Without those that it has: a
    second point would make a line of the bar.
    """
    at_ms = int(time.time() * 1000)
    return [Metric(key, value, at_ms, 0) for key, value in figures.items() if run.data.metrics.get(key) != value]


def _note(run: Run, report: Report) -> str:
    """Return the report in words, after its first sentence the way to the charts of its jobs, where one group has
    them all."""
    group = report.comparison.group
    if run.data.tags.get("platform.group") != group:
        return report.markdown
    answer, _, rest = report.markdown.partition("\n\n")
    return f"{answer}\n\n[Charts of its jobs]({job_charts(run.info.experiment_id, group)})\n\n{rest}"


def report_run(store: Store, experiment_id: str, title: str, of: Sequence[str]) -> str:
    """Return the run that a report made by itself is logged to: the one that `mlflow run` opened, or a new one.

    `of` names the groups, runs or jobs that it is about.
    """
    tags = {"platform.kind": "report", "platform.report_of": ", ".join(of)[:5000], MLFLOW_RUN_NAME: _name(title)}
    if given := os.environ.get("MLFLOW_RUN_ID"):
        store.tag(given, tags)
        return given
    return str(store.call(store.client.create_run, experiment_id, tags=tags).info.run_id)


def log_alone(store: Store, experiment_id: str, title: str, of: Sequence[str], report: Report, folder: Path) -> None:
    """Log a report to a run of its own."""
    with run_alone(store, experiment_id, title, of) as run_id:
        publish(store, run_id, report, folder, _name(title))


@contextmanager
def run_alone(store: Store, experiment_id: str, title: str, of: Sequence[str]) -> Iterator[str]:
    """Yield a report's own run, and end it; FAILED where the server does not take all that is logged within."""
    run_id = report_run(store, experiment_id, title, of)
    try:
        yield run_id
    except TrackingError:
        with suppress(TrackingError):
            store.call(store.client.set_terminated, run_id, "FAILED")
        raise
    store.call(store.client.set_terminated, run_id, "FINISHED")


@contextmanager
def here_alone(say: Callable[[str], None]) -> Iterator[None]:
    """Log a report within: where the server does not take it, that is said, and the report is on this machine.

    Whoever may only read an experiment reports on it like this.
    """
    try:
        yield
    except TrackingError as error:
        say(f"The report is on this machine alone: {str(error).rstrip('.')}.")


def _name(title: str) -> str:
    return f"report {title}"
