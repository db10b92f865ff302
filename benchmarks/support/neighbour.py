"""A process that takes CPU time from the jobs beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def neighbour(*, is_present: bool = True) -> Iterator[None]:
    """Keep one core busy; do nothing without `is_present`."""
    if not is_present:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as process:
        try:
            yield
        finally:
            process.kill()
