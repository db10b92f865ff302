"""What one worker of a sweep does while the others wait: timing the batch sizes before, judging the winner afterwards.

The work itself must be such that doing it again changes nothing: whoever comes next finds its jobs ended and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sweeps.storage import Storage

POLL_SECONDS = 2.0


@contextmanager
def alone(storage: Storage, name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lease of a name; says once that another worker has it."""
    is_said = False
    while True:
        with storage.lease(name) as is_held:
            if is_held:
                yield
                return
        if not is_said:
            is_said = True
            say(f"Another worker is at {name.rpartition('/')[2]}; this one waits.")
        time.sleep(POLL_SECONDS)
