"""Limits of time, and measured memory, of attempts in this process."""

from __future__ import annotations

import contextlib
import signal

import pytest

from tests.support.attacks.bounded import TooSlow, bounded


def test_an_attempt_that_takes_too_long_is_ended_even_if_it_catches_every_error() -> None:
    with pytest.raises(TooSlow):
        work_without_end()


def work_without_end() -> None:
    with bounded(0.05):
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))


def test_memory_is_that_of_the_attempt_alone() -> None:
    with bounded(60) as large:
        len(b"x" * 100_000_000)
    with bounded(60) as small:
        pass
    assert large.megabytes > 90
    assert small.megabytes < 10


def test_an_outer_timer_continues() -> None:
    outer = signal.setitimer(signal.ITIMER_REAL, 300)
    try:
        with bounded(60):
            pass
        left_seconds, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left_seconds <= 300
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
