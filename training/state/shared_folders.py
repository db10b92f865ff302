"""Locks on folders of the state: a process that uses a folder shares its lock, and one that deletes it holds it alone.

The lock is a file beside the folder, and is deleted with the folder. The kernel releases it when its last holder exits.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.state.locks import exclusive_lock, shared_lock

SHARED = ("staged", "sources", "models")
"""Folders of the state whose entries any number of processes may read."""

_one_thread = threading.Lock()
_used: dict[Path, int] = {}
"""Folder to the descriptor of its lock, held until this process ends."""


def use(home: Path, paths: Iterable[Path]) -> bool:
    """Share the locks of all shared folders that contain one of `paths`, until this process ends.

    Return False if one of the folders does not exist because it was just deleted; the caller must create it again.
    """
    shared = [path.relative_to(home).parts[:2] for path in paths if path.is_relative_to(home)]
    return all(_use(home.joinpath(*parts)) for parts in sorted(set(shared)) if parts[0] in SHARED)


def _use(folder: Path) -> bool:
    with _one_thread:
        if folder not in _used:
            try:
                _used[folder] = shared_lock(_file(folder), wait=True)
            except FileNotFoundError:  # its parent folder does not exist
                return False
        if folder.is_dir():
            return True
        os.close(_used.pop(folder))
        return False


@contextlib.contextmanager
def lock_for_deletion(folder: Path) -> Iterator[bool]:
    """Yield whether no other process uses the folder. Processes that begin to use it wait for the end of the block."""
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
