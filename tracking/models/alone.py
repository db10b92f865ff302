"""One command of this machine at a time logs the model of a run: two would build it in the same folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def alone(scratch: Path, run_id: str) -> Iterator[None]:
    """Wait until no other command logs the model of this run, and keep others waiting meanwhile.

    The lock is a file in `scratch`, the state's folder of models, where `jobs prune` looks at folders alone. The kernel
    lets go of it however its holder dies. Raises OSError where the folder cannot be written.
    """
    file = scratch / f".logging-{run_id}.lock"
    descriptor = _locked(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(file: Path) -> int:
    file.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Who held it has deleted the file: another may have made it anew, and hold that.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), file.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
