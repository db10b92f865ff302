"""Summaries of repeats."""

from __future__ import annotations

import math

import pytest

from judging.summaries import Summary, gain_percent, geometric_mean, location, summary, typical


def test_summary_is_median_and_extremes_of_the_finite_values() -> None:
    result = summary([3.0, math.nan, 1.0, 9.0, math.inf])
    assert result == Summary(3.0, 1.0, 9.0, 3, typical=pytest.approx(3.0))  # the cube root of 27
    assert summary([math.nan]) is None
    assert summary([]) is None


def test_the_typical_value_of_few_jobs_is_their_geometric_mean() -> None:
    assert typical([100.0]) == 100.0
    assert typical([2.0, 8.0]) == pytest.approx(4.0)
    assert typical([1.0, 1.0, 2.0, 8.0]) == pytest.approx(2.0)
    assert typical([0.0, 3.0]) == pytest.approx(1.5)  # without logarithms: the mean


def test_from_five_jobs_on_a_slow_one_hardly_moves_the_typical_value() -> None:
    """The 15 means of pairs of 0, 1, 2, 3 and 100 are 0, .5, 1, 1, 1.5, 1.5, 2, 2, 2.5, 3, 50, ...: the 8th is 2."""
    assert location([0.0, 1.0, 2.0, 3.0, 100.0]) == 2.0
    assert typical([math.exp(value) for value in (0.0, 1.0, 2.0, 3.0, 100.0)]) == pytest.approx(math.exp(2.0))
    # Of three values, it is still the mean.
    assert location([0.0, 0.0, 9.0]) == 3.0


def test_gain_percent() -> None:
    assert gain_percent(1.25) == pytest.approx(25)
    assert gain_percent(0.8) == pytest.approx(-20)


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
