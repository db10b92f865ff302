"""Advisory locks on files and folders, shared or exclusive, and those on folders of the state.

The kernel releases a lock when the last process that holds its descriptor exits, however it exits. A child process that
inherits the descriptor keeps the lock. The holder may delete the locked file. No other file of the product imports
`fcntl`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

SHARED = ("staged", "sources", "environments", "models")
"""Folders of the state whose entries any number of processes may read."""
_mutex = threading.Lock()
_descriptors: dict[Path, int] = {}
"""Lock descriptors by folder. Each is held until this process ends."""


def exclusive_lock(path: Path, *, wait: bool = False, mode: int = 0o600) -> int:
    """Lock a file or a folder against all other processes, and return the descriptor that holds the lock.

    Close the descriptor to release the lock. A missing file is created with `mode`. Without `wait`, raises
    BlockingIOError while another process holds a lock. Raises FileNotFoundError if the file's folder does not exist.
    """
    return _lock(path, fcntl.LOCK_EX, wait, mode)


@contextlib.contextmanager
def held_lock(path: Path, *, mode: int = 0o600) -> Iterator[None]:
    """Wait for an exclusive lock on a file, and hold it during a `with` block. The file's folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = exclusive_lock(path, wait=True, mode=mode)
    try:
        yield
    finally:
        os.close(descriptor)


def shared_lock(path: Path, *, wait: bool = False) -> int:
    """Lock a file or a folder against exclusive locks; otherwise like `exclusive_lock`."""
    return _lock(path, fcntl.LOCK_SH, wait, 0o600)


def is_exclusively_locked(path: Path) -> bool:
    """Return whether a process holds an exclusive lock on a file. Several processes may check at the same time.

    Raises FileNotFoundError if the file does not exist.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(path: Path, operation: int, wait: bool, mode: int) -> int:
    while True:
        descriptor = _open(path, mode)
        try:
            fcntl.flock(descriptor, operation if wait else operation | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        # The previous holder deleted the file, and another process may hold a lock on a new file of the same name.
        os.close(descriptor)


def _open(path: Path, mode: int) -> int:
    # In a sticky folder, Linux lets nobody open another user's file with O_CREAT (fs.protected_regular).
    # A link is refused: another user may have made it, and one that leads nowhere could be neither opened nor created.
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_RDONLY if path.is_dir() else os.O_RDWR)
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
            os.fchmod(descriptor, mode)  # also if the process's mask is stricter
            return descriptor


def lock_for_use(home: Path, paths: Iterable[Path]) -> bool:
    """Hold shared locks on all shared folders that contain one of `paths`, until this process ends.

    Return False if one of the folders has just been deleted; the caller must create it again.
    """
    shared = [path.relative_to(home).parts[:2] for path in paths if path.is_relative_to(home)]
    return all(_use(home.joinpath(*parts)) for parts in sorted(set(shared)) if parts[0] in SHARED)


def _use(folder: Path) -> bool:
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
