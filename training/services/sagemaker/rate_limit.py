"""Limit the rate of this process's calls, over all jobs and threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimiter:
    """A rate limiter that allows at most burst + t * per_second calls in any t seconds.

    Further calls wait for their turn; none is rejected.
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
        self._burst_seconds = (burst - 1) * self._interval_seconds
        self._clock, self._sleep = clock, sleep
        self._next_turn = -float("inf")
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Block until the next call is allowed."""
        with self._lock:
            now = self._clock()
            self._next_turn = max(self._next_turn + self._interval_seconds, now - self._burst_seconds)
            pause_seconds = self._next_turn - now
        if pause_seconds > 0:
            self._sleep(pause_seconds)
