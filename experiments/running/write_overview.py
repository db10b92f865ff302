"""Overview of an MLflow experiment, for `report --overview true`."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from experiments.running.output import print_line
from reports.formats.html import html_page
from reports.formats.terminal import print_report
from reports.publish import separate_run, tolerate_rejection, write_files
from reports.render import render_overview
from tracking.server.store import open_store
from training.state.home import home

RETRY_SECONDS = 10.0
"""Short, because a person waits, and the report can be repeated at any time."""


def overview(name: str) -> None:
    """Print and write the overview of the MLflow experiment `name`, which may also be the path of an experiment file.

    The overview is also logged to the run that `mlflow run` opened for the command, if any.
    """
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="No overview was made.")
    with Console(stderr=True).status("Reading the runs"):
        made, report = render_overview(store.client, name, Path(name).stem)
    print_report(report)
    folder = home() / "reports" / f"overview-{made.experiment_id}"
    write_files(folder, {"overview.html": html_page(report), "groups.csv": report.rows_csv})
    print_line(f"\nOverview: {folder / 'overview.html'}")
    if "MLFLOW_RUN_ID" in os.environ:
        store.subject = f"experiment '{made.name}'"
        with tolerate_rejection(print_line), separate_run(store, made.experiment_id, name, [made.name]) as run_id:
            store.call(store.client.log_artifacts, run_id, str(folder), "report")
