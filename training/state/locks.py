"""Advisory locks on files and folders, shared or exclusive.

The kernel releases a lock when the last process that holds its descriptor exits, however it exits. A child process that
inherits the descriptor keeps the lock. The holder may delete the locked file. No other file of the product imports
`fcntl`. For an exclusive lock that one process holds during a `with` block, use `filelock`.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def exclusive_lock(path: Path, *, wait: bool = False) -> int:
    """Lock a file or a folder against all other processes, and return the descriptor that holds the lock.

    Close the descriptor to release the lock. A missing file is created. Without `wait`, raises BlockingIOError while
    another process holds a lock. Raises FileNotFoundError if the file's folder does not exist.
    """
    return _lock(path, fcntl.LOCK_EX, wait)


def shared_lock(path: Path, *, wait: bool = False) -> int:
    """Lock a file or a folder against exclusive locks; otherwise like `exclusive_lock`."""
    return _lock(path, fcntl.LOCK_SH, wait)


def is_exclusively_locked(path: Path) -> bool:
    """Return whether a process holds an exclusive lock on a file. Several processes may check at the same time.

    Raises FileNotFoundError if the file does not exist.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(path: Path, operation: int, wait: bool) -> int:
    while True:
        flags = os.O_RDONLY if path.is_dir() else os.O_CREAT | os.O_RDWR
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, operation if wait else operation | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        if _is_at(descriptor, path):
            return descriptor
        # The previous holder deleted the file, and another process may hold a lock on a new file of the same name.
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
