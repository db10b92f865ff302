"""The rate limiter, on an injected clock."""

from __future__ import annotations

import threading

from training.services.sagemaker.clients import BURST_CALLS, CALLS_PER_SECOND, RateLimiter


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def times(limiter: RateLimiter, clock: Clock, calls: int) -> list[float]:
    elapsed = []
    for _ in range(calls):
        limiter.wait()
        elapsed.append(clock.now - 100.0)
    return elapsed


def test_a_burst_passes_immediately_and_further_calls_wait() -> None:
    clock = Clock()
    limiter = RateLimiter(2.0, 3, clock=clock, sleep=clock.sleep)
    assert times(limiter, clock, 6) == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]


def test_a_pause_allows_one_full_burst() -> None:
    clock = Clock()
    limiter = RateLimiter(2.0, 3, clock=clock, sleep=clock.sleep)
    times(limiter, clock, 3)
    clock.sleep(60.0)
    assert times(limiter, clock, 4) == [60.0, 60.0, 60.0, 60.5]


def test_at_most_a_hundred_calls_pass_in_ten_seconds() -> None:
    clock = Clock()
    limiter = RateLimiter(CALLS_PER_SECOND, BURST_CALLS, clock=clock, sleep=clock.sleep)
    called = times(limiter, clock, 500)
    assert max(sum(first <= time < first + 10.0 for time in called) for first in called) < 100


def test_threads_share_the_limit() -> None:
    slept: list[float] = []
    limiter = RateLimiter(2.0, 1, clock=lambda: 0.0, sleep=slept.append)
    threads = [threading.Thread(target=limiter.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(slept) == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
