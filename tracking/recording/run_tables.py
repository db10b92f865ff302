"""Tables and charts of a run, in the formats that MLflow's UI displays."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from tracking.groups.planned_job import DataSource
from tracking.server.store import Store

Rows = Sequence[Mapping[str, Any]]

FOLDER = "tables"


def log_tables(store: Store, run_id: str, tables: Mapping[str, Rows]) -> None:
    """Write each table as `tables/NAME` in the format of `mlflow.log_table`, and add it to the run's list of tables."""
    if not tables:
        return
    for name, rows in tables.items():
        store.call(store.client.log_text, run_id, table_text(rows), f"{FOLDER}/{name}")
    tagged = store.call(store.client.get_run, run_id).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]")
    listed = json.loads(tagged)
    listed += [entry for name in tables if (entry := {"path": f"{FOLDER}/{name}", "type": "table"}) not in listed]
    store.tag(run_id, {MLFLOW_LOGGED_ARTIFACTS: json.dumps(listed)})


def table_text(rows: Rows) -> str:
    """Return `{"columns": [...], "data": [[...], ...]}`; missing values are null."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    data = [json.dumps([row.get(name) for name in columns], ensure_ascii=False, default=str) for row in rows]
    return f'{{"columns": {json.dumps(columns, ensure_ascii=False)},\n "data": [\n' + ",\n".join(data) + "\n]}\n"


def class_rows(data: DataSource) -> list[dict[str, Any]]:
    """Return one row per class with its count and its share in each split."""
    return [
        {"label": name}
        | {
            f"{split}_{what}": value
            for split, counts in data.class_counts.items()
            for what, value in (("rows", counts[at]), ("share", round(counts[at] / max(sum(counts), 1), 6)))
        }
        for at, name in enumerate(data.label_names)
    ]


class ClassCharts(Protocol):
    """Functions that draw class charts as PNG. The room `reports` implements them, because `tracking` draws nothing."""

    def distribution(self, label_names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> bytes:
        """Return a bar chart of the rows of each class, by split."""

    def confusion(self, label_names: Sequence[str], cells: Mapping[tuple[str, str], int]) -> bytes:
        """Return the confusion matrix; `cells` counts rows by (actual, predicted) label."""


def log_class_distribution(store: Store, run_id: str, data: DataSource, charts: ClassCharts | None) -> None:
    """Log the frequency of each class as a table and, with `charts`, as a chart. Data without classes is skipped."""
    if not data.label_names:
        return
    log_tables(store, run_id, {"class_distribution.json": class_rows(data)})
    if charts is not None:
        png = charts.distribution(data.label_names, data.class_counts)
        _log_chart(store, run_id, "class_distribution", png)


def log_confusion_matrix(store: Store, run_id: str, tables: Mapping[str, Rows], charts: ClassCharts | None) -> None:
    """Log the chart of a classification's confusion matrix, if the job reported one and `charts` is passed."""
    if charts is None or not {"per_class.json", "confusion_matrix.json"} <= tables.keys():
        return
    names = [str(row["label"]) for row in tables["per_class.json"]]
    cells = {(row["actual"], row["predicted"]): int(row["count"]) for row in tables["confusion_matrix.json"]}
    _log_chart(store, run_id, "confusion_matrix", charts.confusion(names, cells))


def _log_chart(store: Store, run_id: str, name: str, png: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.png"
        path.write_bytes(png)
        store.call(store.client.log_artifact, run_id, str(path), "plots")
