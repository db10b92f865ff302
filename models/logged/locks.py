"""One command of this machine at a time logs the model of a run: two would build it in the same folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.state.locks import exclusive_lock


@contextmanager
def alone(scratch: Path, run_id: str) -> Iterator[None]:
    """Wait until no other command logs the model of this run, and keep others waiting meanwhile.

    The lock is a file in `scratch`, the state's folder of models, where `jobs prune` looks at folders alone. Raises
    OSError where the folder cannot be written.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / f".logging-{run_id}.lock"
    descriptor = exclusive_lock(file, wait=True)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)
