"""Calls of one process spaced in time, however many jobs it follows and however many threads call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """Lets `burst` calls pass at once, and `per_second` in the long run: in t seconds at most burst + t * per_second.

    The others wait their turn, so nothing is refused and nothing comes in a rush.
    """

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._interval_seconds = 1 / per_second
        self._ahead_seconds = (burst - 1) * self._interval_seconds
        self._clock, self._sleep = clock, sleep
        self._turn = -float("inf")
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when it is this call's turn."""
        with self._lock:
            now = self._clock()
            self._turn = max(self._turn + self._interval_seconds, now - self._ahead_seconds)
            pause_seconds = self._turn - now
        if pause_seconds > 0:
            self._sleep(pause_seconds)
