"""Lock that lets only one command on this machine log a run's model at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.state.locks import exclusive_lock


@contextmanager
def logging_lock(scratch: Path, run_id: str) -> Iterator[None]:
    """Hold the lock of a run's model; wait while a different command has it.

    The lock is a file in `scratch`, the state folder's folder of models. `jobs prune` ignores files there. Raises
    OSError if the folder cannot be written.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / f".logging-{run_id}.lock"
    descriptor = exclusive_lock(file, wait=True)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)
