"""Who uses a folder of the state shares a lock on it; who deletes it holds the lock alone.

The lock is a file beside the folder. The kernel lets go of it with its last holder, however that dies. It goes with
the folder.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.state.locks import exclusive_lock, shared_lock

SHARED = ("staged", "sources", "models")
"""Folders of the state whose entries are read by any number of processes, and found again by what names them."""

_one_thread = threading.Lock()
_used: dict[Path, int] = {}
"""Folder to the descriptor that holds its lock, for as long as this process lives."""


def use(home: Path, places: Iterable[Path]) -> bool:
    """Keep what of the shared folders is among `places`, or above one, until this process ends.

    False where one of them is gone: it was deleted just now, and has to be made again.
    """
    shared = [place.relative_to(home).parts[:2] for place in places if place.is_relative_to(home)]
    return all(_use(home.joinpath(*parts)) for parts in sorted(set(shared)) if parts[0] in SHARED)


def _use(folder: Path) -> bool:
    with _one_thread:
        if folder not in _used:
            try:
                _used[folder] = shared_lock(_file(folder), wait=True)
            except FileNotFoundError:  # not even the folder above it is there
                return False
        if folder.is_dir():
            return True
        os.close(_used.pop(folder))
        return False


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Yield whether nobody uses the folder; who begins to, waits meanwhile."""
    try:
        descriptor = exclusive_lock(_file(folder))
    except (BlockingIOError, FileNotFoundError):
        yield False
        return
    try:
        yield True
    finally:
        _file(folder).unlink(missing_ok=True)
        os.close(descriptor)


def _file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
