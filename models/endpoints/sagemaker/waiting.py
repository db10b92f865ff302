"""Wait for SageMaker with growing pauses, progress lines and a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from models.endpoints.protocol import Echo
from training.contract.retry import RetryPolicy

BACK_OFF = 1.3


@dataclass(frozen=True, kw_only=True)
class WaitPolicy:
    """Pauses and limits of waiting."""

    first_seconds: float = 3.0
    longest_seconds: float = 15.0
    """Pause between two checks."""
    line_seconds: float = 30.0
    """Time between two progress lines."""
    delete_seconds: float = 3600.0
    """Longest wait until SageMaker allows an endpoint to be deleted. An endpoint whose container never answers was
    observed to stay `Creating`, in which it cannot be deleted, for up to an hour."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def checks(self, what: str, limit_seconds: float, echo: Echo) -> Iterator[float]:
        """Yield the elapsed seconds at each check, until the limit. From time to time, print `what` and the seconds."""
        policy = RetryPolicy(
            first_pause_seconds=self.first_seconds,
            factor=BACK_OFF,
            longest_pause_seconds=self.longest_seconds,
            total_seconds=limit_seconds,
            clock=self.clock,
            sleep=self.sleep,
        )
        reported_at_seconds = 0.0
        for elapsed_seconds in policy.attempts():
            if elapsed_seconds - reported_at_seconds >= self.line_seconds:
                reported_at_seconds = elapsed_seconds
                echo(f"{what} {elapsed_seconds:.0f} s")
            yield elapsed_seconds
