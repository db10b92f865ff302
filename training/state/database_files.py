"""Create SQLite databases so that no process sees an incomplete one.

A database is made beside its place, under a lock, and then renamed. A process that is killed meanwhile leaves only a
file whose name begins with a full stop, and the next process deletes it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from training.state.locks import exclusive_lock
from training.state.umask import file_mode


@contextlib.contextmanager
def lock_database(path: Path) -> Iterator[None]:
    """Wait until no other process creates this database, and keep others from it meanwhile.

    Raises OSError if the folder does not exist or cannot be written to.
    """
    descriptor = exclusive_lock(path.with_name(f".{path.name}.lock"), wait=True, mode=file_mode())
    try:
        yield
    finally:
        os.close(descriptor)


def exists(path: Path) -> bool:
    """Return whether something is at the path, apart from the empty file that SQLite leaves before its first table."""
    return path.exists() and (not path.is_file() or path.stat().st_size > 0)


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
