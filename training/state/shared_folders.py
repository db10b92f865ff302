"""Locks on folders of the state: shared by the processes that use a folder, exclusive to the one that deletes it.

The lock is a file beside the folder and is deleted with it. The kernel releases the lock when its last holder exits.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.state.locks import exclusive_lock, shared_lock

SHARED = ("staged", "sources", "environments", "models")
"""Folders of the state whose entries any number of processes may read."""

_mutex = threading.Lock()
_descriptors: dict[Path, int] = {}
"""Lock descriptors by folder. Each is held until this process ends."""


def lock_for_use(home: Path, paths: Iterable[Path]) -> bool:
    """Hold shared locks on all shared folders that contain one of `paths`, until this process ends.

    Return False if one of the folders has just been deleted; the caller must create it again.
    """
    shared = [path.relative_to(home).parts[:2] for path in paths if path.is_relative_to(home)]
    return all(_lock(home.joinpath(*parts)) for parts in sorted(set(shared)) if parts[0] in SHARED)


def _lock(folder: Path) -> bool:
    with _mutex:
        if folder not in _descriptors:
            try:
                _descriptors[folder] = shared_lock(_lock_file(folder), wait=True)
            except FileNotFoundError:  # its parent folder does not exist
                return False
        if folder.is_dir():
            return True
        os.close(_descriptors.pop(folder))
        return False


def held_locks() -> list[int]:
    """Return the descriptors of all locks that this process holds. A child process that inherits them keeps them."""
    return list(_descriptors.values())


@contextlib.contextmanager
def lock_for_deletion(folder: Path) -> Iterator[bool]:
    """Yield True if no other process uses the folder. A process that starts to use it waits until the block ends."""
    try:
        descriptor = exclusive_lock(_lock_file(folder))
    except (BlockingIOError, FileNotFoundError):
        yield False
        return
    try:
        yield True
    finally:
        _lock_file(folder).unlink(missing_ok=True)
        os.close(descriptor)


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
