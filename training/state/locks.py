"""A lock on a file that whoever holds it may delete; the kernel lets go of it however its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def locked(file: Path, operation: int) -> int:
    """Return a descriptor that holds `operation` of `fcntl.flock` on a file, made where it is not there.

    Closing it gives the lock back. Who held it before may have deleted the file, and another made it anew and hold
    that; so what was got counts only while it is the file that is there. Raises BlockingIOError with LOCK_NB, and
    FileNotFoundError where the folder is not there.
    """
    while True:
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, operation)
        except BaseException:
            os.close(descriptor)
            raise
        if _is_at(descriptor, file):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
