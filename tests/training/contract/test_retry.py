"""Retry policy: pauses, time limit and errors, on a clock that only `sleep` advances."""

from __future__ import annotations

import pytest

from training.contract.retry import RetryPolicy


class Clock:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return sum(self.pauses)

    def policy(self, total_seconds: float) -> RetryPolicy:
        return RetryPolicy(
            first_pause_seconds=1.0,
            longest_pause_seconds=4.0,
            total_seconds=total_seconds,
            clock=self,
            sleep=self.pauses.append,
        )


def is_os_error(error: Exception) -> bool:
    return isinstance(error, OSError)


def test_the_last_attempt_is_made_when_the_time_is_up() -> None:
    clock = Clock()
    assert list(clock.policy(10.0).attempts()) == [0.0, 1.0, 3.0, 7.0, 10.0]
    assert clock.pauses == [1.0, 2.0, 4.0, 3.0]


def test_a_call_is_repeated_until_it_succeeds() -> None:
    clock, failures = Clock(), list[float]()

    def works_after_three_seconds() -> str:
        if clock() < 3:
            raise OSError("silent")
        return "answer"

    policy = clock.policy(10.0)
    assert (
        policy.call(
            works_after_three_seconds, is_transient=is_os_error, on_failure=lambda seconds, _: failures.append(seconds)
        )
        == "answer"
    )
    assert failures == [0.0, 1.0]
    assert clock.pauses == [1.0, 2.0]


def test_the_last_error_is_raised_after_the_time_limit() -> None:
    clock = Clock()

    def fails() -> None:
        raise OSError(f"silent after {clock():.0f} s")

    with pytest.raises(OSError, match="silent after 10 s"):
        clock.policy(10.0).call(fails, is_transient=is_os_error)


def test_an_error_that_is_not_transient_is_raised_immediately() -> None:
    clock = Clock()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        clock.policy(10.0).call(fails, is_transient=is_os_error)
    assert clock.pauses == []
