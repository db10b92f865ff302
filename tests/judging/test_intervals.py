"""Every figure here was worked out by hand, or by scipy's own test of the same quantity."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.intervals import Interval, difference, mean_estimate, ratio_intervals


def test_difference_interval_by_hand() -> None:
    # means 3 and 1, both variances 1: error = sqrt(1/3 + 1/3), freedom (2/3)^2 / (2 (1/3)^2 / 2) = 4, t = 2.776445
    change = difference(mean_estimate([2.0, 3.0, 4.0]), mean_estimate([0.0, 1.0, 2.0]))
    reach = 2.776445 * math.sqrt(2 / 3)
    assert (change.value, *change.ends()) == pytest.approx((2.0, 2 - reach, 2 + reach), rel=1e-6)


def test_a_side_without_spread_adds_no_degrees_of_freedom() -> None:
    # variances 0 and 1: error = sqrt(1/3), and only the other side's 2 degrees of freedom count, t = 4.302653
    change = difference(mean_estimate([5.0, 5.0, 5.0, 5.0]), mean_estimate([0.0, 1.0, 2.0]))
    reach = 4.302653 * math.sqrt(1 / 3)
    assert change.ends() == pytest.approx((4 - reach, 4 + reach), rel=1e-6)


@pytest.mark.parametrize(
    ("n_arm", "n_baseline", "spread_arm", "spread_baseline"),
    [(2, 2, 0.05, 0.05), (3, 3, 0.2, 0.2), (5, 5, 0.05, 0.05), (5, 5, 0.1, 0.02), (4, 5, 0.12, 0.04), (2, 5, 0.1, 0.1)],
)
def test_interval_covers_the_truth_19_times_in_20(
    n_arm: int, n_baseline: int, spread_arm: float, spread_baseline: float
) -> None:
    random, truth, trials = np.random.default_rng(7), 0.8, 4000
    covered = 0
    for _ in range(trials):
        arm = 80 * np.exp(spread_arm * random.standard_normal(n_arm))
        baseline = 100 * np.exp(spread_baseline * random.standard_normal(n_baseline))
        (interval,) = ratio_intervals([arm.tolist()], baseline.tolist())
        assert interval is not None
        covered += interval.low <= truth <= interval.high
    # The standard error of this share is sqrt(0.95 * 0.05 / 4000) = 0.0034; Welch's t is a little wide for two values.
    assert 0.935 <= covered / trials <= 0.985


@given(st.lists(st.floats(1, 1e5), min_size=2, max_size=6), st.lists(st.floats(1, 1e5), min_size=2, max_size=6))
def test_ratio_interval_is_inverted_when_the_sides_are_swapped(arm: list[float], baseline: list[float]) -> None:
    (interval,), (swapped,) = ratio_intervals([arm], baseline), ratio_intervals([baseline], arm)
    assert interval is not None
    assert swapped is not None
    assert interval.low <= interval.estimate <= interval.high
    assert math.log(interval.low) == pytest.approx(-math.log(swapped.high), abs=1e-6)


def test_two_equal_values_a_side_have_an_interval_by_hand() -> None:
    """5 against 4 is 1.25. Each side spreads by at least 0.001: error sqrt(2 * 0.001^2 / 2) = 0.001, with 2 degrees of
    freedom, t = 4.302653: from 1.25 * exp(-0.004302653) = 1.244633 to 1.255390."""
    (interval,) = ratio_intervals([[5.0, 5.0]], [4.0, 4.0])
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((1.244633, 1.255390), abs=1e-6)
    assert ratio_intervals([[5.0]], [4.0, 4.0]) == ratio_intervals([[5.0, 5.0]], []) == [None]


def test_several_ratios_share_the_error_by_hand() -> None:
    """Sides v * (0.96, 1, 1 / 0.96): error 0.0333310 with 4 degrees of freedom (see `worked_cases`).

    Of three arms, 1.30 differs at 5 % / 3: t = 3.960786, reach 0.132020 < log 1.30 = 0.262364. The other two then share
    5 %: t = 3.495406, reach 0.116505. 1.12 does not differ (0.113329), although it would at 5 % (reach 0.092542).
    """
    arms = [[0.96 * v, v, v / 0.96] for v in (1.12, 1.30, 1.0)]
    intervals = ratio_intervals([*arms, [1.0]], [0.96, 1.0, 1 / 0.96])
    assert intervals[3] is None
    reaches = [math.log(each.high / each.estimate) for each in intervals if each]
    assert reaches == pytest.approx([0.116505, 0.132020, 0.116505], abs=1e-5)
    assert [each.low > 1 for each in intervals if each] == [False, True, False]
    (alone,) = ratio_intervals(arms[:1], [0.96, 1.0, 1 / 0.96])
    assert alone is not None
    assert alone.low > 1


@pytest.mark.parametrize(
    ("low", "high", "is_informative"),
    [(0.5, 2.0, True), (0.5, 2.01, False), (0.0, 1.2, False), (1.01, 50.0, True), (0.01, 0.99, True)],
)
def test_an_interval_that_includes_1_must_not_be_wider_than_from_half_to_double(
    low: float, high: float, is_informative: bool
) -> None:
    assert Interval(1.0, low, high, 2, 2).is_informative is is_informative
