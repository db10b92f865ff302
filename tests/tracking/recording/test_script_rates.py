"""Steady rates, worked out by hand."""

from __future__ import annotations

import pytest

from tracking.recording.script_log import SteadyRate


def rate_of(marks: list[tuple[int, float]], clock: int | None = None) -> float | None:
    rate = SteadyRate()
    for steps, time in marks:
        rate.add_steps(steps, time, clock)
    return rate.per_second()


def test_the_first_tenth_is_left_out() -> None:
    # The first 10 of 100 steps take 50 s, all others half a second each.
    assert rate_of([(10, 50.0), *((10 + n, 50.0 + n / 2) for n in range(1, 91))]) == pytest.approx(2.0)


def test_steps_before_the_first_line_never_count() -> None:
    assert rate_of([(0, 0.0), (1, 60.0), (2, 61.0), (3, 62.0), (4, 63.0)]) == pytest.approx(1.0)


def test_a_known_evaluation_is_subtracted() -> None:
    rate = SteadyRate()
    for steps, time in ((10, 0.0), (20, 10.0)):
        rate.add_steps(steps, time)
    rate.add_evaluation(5.0)
    rate.add_evaluation(2.0)
    rate.add_steps(30, 27.0)
    assert rate.per_second() == pytest.approx(1.0)


def test_the_interval_around_an_unknown_evaluation_is_left_out() -> None:
    rate = SteadyRate()
    for steps, time in ((10, 0.0), (20, 10.0)):
        rate.add_steps(steps, time)
    rate.add_evaluation(None)
    rate.add_steps(30, 500.0)
    rate.add_steps(40, 510.0)
    assert rate.per_second() == pytest.approx(1.0)


def test_a_short_measurement_is_not_a_rate() -> None:
    assert rate_of([(1, 0.0), (10, 1.9)]) is None
    assert rate_of([(1, 0.0), (10, 2.0)]) == pytest.approx(4.5)
    # Bars show whole seconds.
    assert rate_of([(1, 0.0), (10, 9.0)], clock=1) is None
    assert rate_of([(1, 0.0), (10, 10.0)], clock=1) == pytest.approx(0.9)
    assert rate_of([]) is None
    assert rate_of([(5, 1.0)]) is None


def test_times_of_two_bars_are_not_subtracted() -> None:
    rate = SteadyRate()
    for steps, seconds, clock in ((10, 0, 1), (30, 20, 1), (31, 1, 2), (51, 21, 2)):
        rate.add_steps(steps, seconds, clock)
    assert rate.per_second() == pytest.approx(1.0)
