"""A report goes to its parent run, and to a folder of this machine."""

from __future__ import annotations

import json
from pathlib import Path

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from tracking.group import Group
from tracking.report.forms import Report
from tracking.store import Store

HEADLINE = "platform.headline"
"""Tag of a group's run: the answer of its latest report, for who looks at many groups."""


def publish(store: Store, group: Group, report: Report, folder: Path) -> Path:
    """Write the report's files to `folder` and log them to the parent run; return the page's path."""
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    page.write_text(report.html, encoding="utf-8")
    (folder / "jobs.csv").write_text(report.jobs_csv, encoding="utf-8")
    (folder / "summary.json").write_text(
        json.dumps(report.summary_json, indent=1, ensure_ascii=False), encoding="utf-8"
    )
    for name, png in report.pngs.items():
        (plots / name).write_bytes(png)
    store.call(store.client.log_artifacts, group.run_id, str(folder), "report")
    store.tag(group.run_id, {MLFLOW_RUN_NOTE: report.markdown, HEADLINE: str(report.summary_json["headline"])[:5000]})
    return page
