"""Summaries of repeats."""

from __future__ import annotations

import math

import pytest

from judging.summaries import Summary, gain_percent, geometric_mean, summary


def test_summary_is_median_and_extremes_of_the_finite_values() -> None:
    assert summary([3.0, math.nan, 1.0, 10.0, math.inf]) == Summary(3.0, 1.0, 10.0, 3)
    assert summary([math.nan]) is None
    assert summary([]) is None


def test_gain_percent() -> None:
    assert gain_percent(1.25) == pytest.approx(25)
    assert gain_percent(0.8) == pytest.approx(-20)


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
