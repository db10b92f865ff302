"""The verb `report --overview true`: everything that an MLflow experiment holds."""

from __future__ import annotations

import sys
from pathlib import Path

from tracking.reading import Reading
from tracking.report.overview_report import render_overview
from tracking.report.terminal import print_overview
from tracking.store import open_store
from training.home import home


def overview(name: str) -> None:
    """Print and write the overview of the MLflow experiment `name`; of an experiment file, of that of its name."""
    with Reading("runs", sys.stderr) as reading:
        made = render_overview(open_store().client, name, Path(name).stem, saw=reading.saw)
    folder = home() / "reports" / f"overview-{made.overview.experiment_id}"
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "overview.html"
    page.write_text(made.html, encoding="utf-8")
    (folder / "groups.csv").write_text(made.groups_csv, encoding="utf-8")
    print_overview(made.overview)
    print(f"\nOverview: {page}")
