"""Overview of an MLflow experiment, for `report --overview true`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reports.formats.terminal import print_overview
from reports.overview_report import render_overview
from reports.publish import here_alone, run_alone
from tracking.queries.read_progress import ReadProgress
from tracking.server.store import open_store
from training.state.home import home

PATIENCE_SECONDS = 10.0
"""Short, because a person waits, and a report can be repeated at any time."""


def overview(name: str) -> None:
    """Print and write the overview of the MLflow experiment `name`, which may also be an experiment file.

    It is also logged to the run that `mlflow run` opened for the command, if any.
    """
    store = open_store(retry_seconds=PATIENCE_SECONDS, otherwise="No overview was made.")
    with ReadProgress("runs", sys.stderr) as reading:
        made = render_overview(store.client, name, Path(name).stem, saw=reading.update)
    folder = home() / "reports" / f"overview-{made.overview.experiment_id}"
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "overview.html"
    page.write_text(made.html, encoding="utf-8")
    (folder / "groups.csv").write_text(made.groups_csv, encoding="utf-8")
    print_overview(made.overview)
    print(f"\nOverview: {page}")
    if "MLFLOW_RUN_ID" in os.environ:
        store.subject = f"experiment '{made.overview.name}'"
        with here_alone(print), run_alone(store, made.overview.experiment_id, name, [made.overview.name]) as run_id:
            store.call(store.client.log_artifacts, run_id, str(folder), "report")
