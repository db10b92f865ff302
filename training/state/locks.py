"""Advisory locks on files and folders, shared or exclusive.

The kernel releases a lock when the last process that holds its descriptor exits, however it exits. A child process that
inherits the descriptor keeps the lock. The holder may delete the locked file. No other file of the product imports
`fcntl`. For an exclusive lock that one process holds during a `with` block, use `filelock`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


def exclusive_lock(path: Path, *, wait: bool = False, mode: int = 0o600) -> int:
    """Lock a file or a folder against all other processes, and return the descriptor that holds the lock.

    Close the descriptor to release the lock. A missing file is created with `mode`. Without `wait`, raises
    BlockingIOError while another process holds a lock. Raises FileNotFoundError if the file's folder does not exist.
    """
    return _lock(path, fcntl.LOCK_EX, wait, mode)


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
        if _is_at(descriptor, path):
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
            os.fchmod(descriptor, mode)  # whatever the process's mask is
            return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
