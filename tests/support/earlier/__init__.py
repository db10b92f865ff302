"""State of earlier versions: MLflow databases and state folders of version 0.1.0.

`state.tar.xz` holds a finished comparison of two batch sizes with two repeats each, and a training whose launcher left
while its job was running; the job has ended since.

`whole_state.tar.xz` is of the last version with its own readers of data, its own server and MLflow flavour. The script
`make.py` of commit 180e095d made it. It holds a finished comparison, trainings of each task with logged models, their
inputs and answers (`answers.json`), a compared script, a sweep with its study, a comparison whose launcher left after
its first job, and an endpoint whose server was killed.

Every path in both starts with `ROOT`, or with `SOURCE` for the repository.
"""

from __future__ import annotations

import sqlite3
import tarfile
from collections.abc import Mapping
from pathlib import Path

ARCHIVE = Path(__file__).with_name("state.tar.xz")
WHOLE = Path(__file__).with_name("whole_state.tar.xz")
ROOT = "/trainfare-earlier"
SOURCE = "/trainfare-repository"
REPOSITORY = Path(__file__).resolve().parents[3]
COMPARISON = "mine-261122-201046-a25b"
OPEN_TRAINING = "mine-261122-201150-5b86"


def unpack(folder: Path, source: Path = ARCHIVE) -> None:
    """Unpack the database (`mlflow.db`), the artifacts and the state folder (`home`), with paths under `folder`."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    replace_paths(folder, {ROOT: str(folder), SOURCE: str(REPOSITORY)})


def replace_paths(folder: Path, paths: Mapping[str, str]) -> None:
    """Replace paths in all text files and databases, but not in staged data, which has digests."""
    staged = folder / "home" / "staged"
    for path in folder.rglob("*"):
        if path.suffix == ".db":
            _replace_in_database(path, paths)
        elif path.is_file() and not path.is_symlink() and not path.is_relative_to(staged):
            _replace_in_text(path, paths)


def _replace_in_text(path: Path, paths: Mapping[str, str]) -> None:
    content = path.read_bytes()
    for old, new in paths.items():
        content = content.replace(old.encode(), new.encode())
    if content != path.read_bytes():
        path.write_bytes(content)


def _replace_in_database(path: Path, paths: Mapping[str, str]) -> None:
    database = sqlite3.connect(path)
    tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
    columns = [(table, row[1]) for table in tables for row in database.execute(f'pragma table_info("{table}")')]
    for old, new in paths.items():
        for table, column in columns:
            database.execute(
                f'update "{table}" set "{column}" = replace("{column}", ?, ?) where instr("{column}", ?)',
                (old, new, old),
            )
    database.commit()
    database.close()
