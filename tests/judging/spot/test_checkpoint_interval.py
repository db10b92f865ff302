"""Young's and Daly's intervals, worked out by hand and compared with the exact optimum."""

from __future__ import annotations

import pytest

from judging.spot.checkpoint_interval import daly_interval, young_interval
from judging.spot.expected_time import Training, expected_seconds
from judging.spot.rates import BAND_ENDS_PERCENT, DEFAULT_PER_HOUR, interruptions_per_hour


def test_young_by_hand() -> None:
    assert young_interval(200.0, 10_000.0) == 2_000.0


def test_daly_by_hand() -> None:
    """C / 2 M = 0.01: 2,000 (1 + 0.1 / 3 + 0.01 / 9) - 200 = 1,868.89."""
    assert daly_interval(200.0, 10_000.0) == pytest.approx(1_868.8889, abs=1e-4)


def test_a_checkpoint_as_long_as_two_interruptions_is_written_once_in_between() -> None:
    assert daly_interval(200.0, 100.0) == 100.0
    assert daly_interval(500.0, 100.0) == 100.0


@pytest.mark.parametrize(("checkpoint", "between"), [(2.0, 600.0), (20.0, 3_600.0), (60.0, 1_200.0)])
def test_no_interval_is_better_than_dalys_by_more_than_a_thousandth(checkpoint: float, between: float) -> None:
    best = daly_interval(checkpoint, between)
    training = Training(startup_seconds=100.0, work_seconds=400 * best, checkpoint_seconds=checkpoint)
    cost = expected_seconds(training, 1 / between, best)
    others = [expected_seconds(training, 1 / between, 400 * best / parts) for parts in range(100, 1_600, 20)]
    assert cost <= min(others) * 1.001
    assert cost < expected_seconds(training, 1 / between, best / 2)
    assert cost < expected_seconds(training, 1 / between, best * 2)


def test_rates_of_the_published_bands_by_hand() -> None:
    """80 of 100 instances survive a month of 730 h: -ln(0.8) / 730 = 0.00030567 interruptions an hour."""
    assert interruptions_per_hour(20.0) == pytest.approx(0.00030567, abs=1e-8)
    assert interruptions_per_hour(0.0) == 0.0
    assert BAND_ENDS_PERCENT == (5.0, 10.0, 15.0, 20.0)
    assert DEFAULT_PER_HOUR == 0.0003


@pytest.mark.parametrize("percent", [-1.0, 100.0, float("nan")])
def test_a_share_outside_of_its_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="from 0 to below 100 percent"):
        interruptions_per_hour(percent)
