"""An MLflow database and a state folder as version 0.1.0 wrote them before the rooms were named anew.

`state.tar.xz` holds a finished comparison of two batch sizes with two repeats each, and a training whose launcher left
while its job was running; the job has ended since. Every path in it starts with `ROOT`.
"""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("state.tar.xz")
ROOT = "/trainfare-earlier"
COMPARISON = "mine-261122-201046-a25b"
OPEN_TRAINING = "mine-261122-201150-5b86"


def unpack(folder: Path) -> None:
    """Unpack the database (`mlflow.db`), the artifacts and the state folder (`home`), with paths under `folder`."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        if path.suffix in {".json", ".jsonl", ".yaml", ".txt", ".csv"}:
            path.write_text(path.read_text("utf-8").replace(ROOT, str(folder)), "utf-8")
    database = sqlite3.connect(folder / "mlflow.db")
    for table, column in (
        ("runs", "artifact_uri"),
        ("experiments", "artifact_location"),
        ("datasets", "dataset_source"),
    ):
        database.execute(f"update {table} set {column} = replace({column}, ?, ?)", (ROOT, str(folder)))
    database.commit()
    database.close()
