"""Retry a call, or poll a condition, with growing pauses and a time limit.

This is the only retry policy of the project; boto3 has its own for calls to AWS.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")
CREDENTIALS_WAIT_MINUTES = 60.0
"""Default time for which a launcher waits for new credentials."""
Sleep = Callable[[float], object]


def growing_pauses(first_seconds: float, factor: float, longest_seconds: float) -> Iterator[float]:
    """Yield endless pauses in seconds. Each is `factor` times as long as the previous one, up to `longest_seconds`."""
    pause_seconds = first_seconds
    while True:
        yield pause_seconds
        pause_seconds = min(pause_seconds * factor, longest_seconds)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Lengths of the pauses between attempts, and the total time limit. Tests can replace the clock and `sleep`."""

    first_pause_seconds: float = 0.25
    factor: float = 2.0
    longest_pause_seconds: float = 15.0
    total_seconds: float = 3600.0
    """Time limit, from the first attempt."""
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = time.sleep

    def attempts(self) -> Iterator[float]:
        """Yield the elapsed seconds at each attempt, and sleep between attempts, until `total_seconds` have passed.

        The last attempt is made when the time is up, to notice a condition that becomes true during the last pause.
        """
        started = self.clock()
        for pause_seconds in growing_pauses(self.first_pause_seconds, self.factor, self.longest_pause_seconds):
            yield self.clock() - started
            remaining_seconds = self.total_seconds - (self.clock() - started)
            if remaining_seconds <= 0:
                return
            self.sleep(min(pause_seconds, remaining_seconds))

    def call(
        self,
        method: Callable[[], Result],
        *,
        is_transient: Callable[[Exception], bool],
        on_failure: Callable[[float, Exception], object] = lambda _, __: None,
    ) -> Result:
        """Return `method()`, and repeat it while it raises transient errors.

        `on_failure` is called with the elapsed seconds and the error after each failed attempt except the last. An
        error that is not transient is raised immediately. After `total_seconds`, any error is raised.
        """
        started = self.clock()
        pauses = growing_pauses(self.first_pause_seconds, self.factor, self.longest_pause_seconds)
        while True:
            try:
                return method()
            except Exception as error:
                elapsed_seconds = self.clock() - started
                if not is_transient(error) or elapsed_seconds >= self.total_seconds:
                    raise
                on_failure(elapsed_seconds, error)
            self.sleep(min(next(pauses), self.total_seconds - elapsed_seconds))
