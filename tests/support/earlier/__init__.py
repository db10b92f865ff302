"""State of earlier versions: an MLflow database and a state folder of version 0.1.0, and the code of a logged model.

`state.tar.xz` holds a finished comparison of two batch sizes with two repeats each, and a training whose launcher left
while its job was running; the job has ended since. Every path in it starts with `ROOT`.

`model_code.tar.xz` holds the folder `code` of models that were logged while the module for question answering was
named `trainfare_spans.py`.
"""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("state.tar.xz")
WHOLE = Path(__file__).with_name("whole_state.tar.xz")
MODEL_CODE = Path(__file__).with_name("model_code.tar.xz")
ROOT = "/trainfare-earlier"
COMPARISON = "mine-261122-201046-a25b"
OPEN_TRAINING = "mine-261122-201150-5b86"


def unpack_model_code(model: Path) -> None:
    """Replace the code of an MLflow model by the code that an earlier version stored with its models."""
    shutil.rmtree(model / "code")
    with tarfile.open(MODEL_CODE) as archive:
        archive.extractall(model, filter="data")


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
