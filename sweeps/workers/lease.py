"""Leases for work that one worker of a sweep does while the others wait: opening, calibration, repeating the winner.

The work must be safe to repeat: the next worker finds the completed jobs and continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sweeps.study.storage import Storage

POLL_SECONDS = 1.0
SILENT_LOOKS = 3
"""Number of failed attempts after which the wait is reported."""


@contextmanager
def hold_lease(storage: Storage, name: str, echo: Callable[[str], None]) -> Iterator[None]:
    """Hold the lease of a name. Prints one line if another worker holds it for longer."""
    looks = 0
    while True:
        with storage.lease(name) as is_held:
            if is_held:
                yield
                return
        looks += 1
        if looks == SILENT_LOOKS:
            echo(f"Another worker is at {name.rpartition('/')[2]}; waiting for it.")
        time.sleep(POLL_SECONDS)
