"""What one worker of a sweep does while the others wait: opening it, timing the batch sizes, judging the winner.

The work itself must be such that doing it again changes nothing: whoever comes next finds its jobs ended and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sweeps.study.storage import Storage

POLL_SECONDS = 1.0
SILENT_LOOKS = 3
"""Shorter waits are not worth a line."""


@contextmanager
def alone(storage: Storage, name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lease of a name; says once that another worker has it."""
    looks = 0
    while True:
        with storage.lease(name) as is_held:
            if is_held:
                yield
                return
        looks += 1
        if looks == SILENT_LOOKS:
            say(f"Another worker is at {name.rpartition('/')[2]}; this one waits.")
        time.sleep(POLL_SECONDS)
