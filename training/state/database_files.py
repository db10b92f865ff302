"""Create and replace SQLite databases so that no process sees an incomplete one.

A database is made beside its place, under a lock, and then renamed. A process that is killed meanwhile leaves only a
file whose name begins with a full stop, and the next process deletes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from training.state.locks import exclusive_lock
from training.state.umask import file_mode


@contextlib.contextmanager
def lock_database(path: Path) -> Iterator[None]:
    """Wait until no other process creates or replaces this database, and keep others from it meanwhile.

    Raises OSError if the folder does not exist or cannot be written to.
    """
    descriptor = exclusive_lock(path.with_name(f".{path.name}.lock"), wait=True, mode=file_mode())
    try:
        yield
    finally:
        os.close(descriptor)


def create(path: Path, make: Callable[[Path], None]) -> None:
    """Let `make` create the database at a temporary path, and rename it to `path`. The caller holds the lock.

    The database is private, unless TRAINFARE_UMASK has another mask. Raises InputError if that is not a mask.
    """
    with _beside(path) as new:
        # SQLite keeps the mode of an empty file, and would create a file that all users may read.
        new.touch()
        new.chmod(file_mode())
        make(new)
        new.replace(path)


def replace(path: Path, change: Callable[[Path], None], kept: Path) -> None:
    """Let `change` change a copy of the database, which then takes its place. The caller holds the lock.

    The old database stays as `kept`. Writers wait until it is replaced. Raises sqlite3.Error if it cannot be read.
    """
    with _beside(path) as new, contextlib.closing(sqlite3.connect(path, timeout=60.0)) as old:
        old.execute("BEGIN IMMEDIATE")
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(new)) as copy:
            source.backup(copy)
        shutil.copymode(path, new)
        change(new)
        kept.unlink(missing_ok=True)
        kept.hardlink_to(path)
        new.replace(path)
        old.execute("ROLLBACK")


def set_aside(path: Path) -> Path:
    """Rename a database that cannot be used, and return its new path. The caller holds the lock."""
    aside = path.with_name(f"{path.name}.incomplete-{datetime.now(UTC):%y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}")
    path.rename(aside)
    return aside


def tables(path: Path) -> set[str]:
    """Return the names of the database's tables; none if the file is missing or empty.

    Raises sqlite3.Error if the file is not a database or cannot be read.
    """
    if not path.exists():
        return set()
    if not path.is_file():  # SQLite would wait for a pipe for ever
        raise sqlite3.DatabaseError("it is not a regular file")
    with contextlib.closing(_opened(path)) as database:
        return {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def count_rows(path: Path, table: str) -> int:
    """Return the number of rows of a table. Raises sqlite3.Error if it does not exist."""
    with contextlib.closing(_opened(path)) as database:
        return int(database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def _opened(path: Path) -> sqlite3.Connection:
    """Open an existing database.

    The mode is `rw`, not `ro`: the first reader after a killed writer has to roll back its transaction. SQLite opens a
    file that may not be written as read-only all the same.
    """
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=60.0)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield a new path in the same folder. Files that killed processes left there are deleted."""
    for left in path.parent.glob(f".{path.name}.new-*"):
        left.unlink()
    new = path.with_name(f".{path.name}.new-{uuid.uuid4().hex}")
    try:
        yield new
    finally:
        for file in path.parent.glob(f"{new.name}*"):  # with journals
            file.unlink(missing_ok=True)
