"""Test looks at growing comparisons: when an arm stops, and why."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from judging.sequential import Design, look, look_at_arms

DESIGN = Design()
BASELINE = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9]


def scaled(ratio: float, repeats: int) -> list[float]:
    return [ratio * cost for cost in reversed(BASELINE[:repeats])]


def test_three_repeats_are_judged_by_means() -> None:
    arm, baseline = [80.0, 82.0, 81.0], [100.0, 103.0, 98.0]
    result = look(arm, baseline, DESIGN, 0)
    assert result is not None
    assert result.level == pytest.approx(0.022642, abs=1e-6)
    logs = [[math.log(cost) for cost in side] for side in (arm, baseline)]
    scipys = stats.ttest_ind(*logs, equal_var=False)
    interval = scipys.confidence_interval(1 - result.level)
    assert (math.log(result.ratio.low), math.log(result.ratio.high)) == pytest.approx((interval.low, interval.high))
    assert math.log(result.least_ratio) == pytest.approx(scipys.confidence_interval(0.8).low)
    assert result.stops == "cheaper"


def test_five_repeats_are_judged_by_ranks() -> None:
    arm, baseline = [80.0, 81.0, 82.0, 83.0, 300.0], [100.0, 101.0, 102.0, 103.0, 104.0]
    result = look(arm, baseline, DESIGN, 1)
    assert result is not None
    ratios = sorted(mine / others for mine in arm for others in baseline)
    assert result.ratio.estimate == pytest.approx(ratios[12])
    # Level 0.017765: P(U <= 1) = 2 / 252 = 0.0079 fits half of it, and P(U <= 2) = 4 / 252 = 0.0159 does not.
    assert (result.ratio.low, result.ratio.high) == pytest.approx((ratios[1], ratios[-2]))
    # P(U <= 6) = 0.111 is above the 10 % of the one-sided interval, P(U <= 5) = 0.075 is not.
    assert result.least_ratio == pytest.approx(ratios[5])


@pytest.mark.parametrize(
    ("ratio", "number", "reason"),
    [
        (0.90, 0, "cheaper"),
        (1.10, 0, "dearer"),
        (1.00, 0, "no gain worth having"),
        (0.97, 3, "cheaper"),
        (1.02, 3, "dearer"),
    ],
)
def test_an_arm_stops_for_a_reason(ratio: float, number: int, reason: str) -> None:
    repeats = DESIGN.looks[number]
    result = look(scaled(ratio, repeats), BASELINE[:repeats], DESIGN, number)
    assert result is not None
    assert result.stops == reason


def test_an_undecided_arm_continues_until_the_last_look() -> None:
    arm, baseline = [90.0, 110.0, 80.0], [100.0, 120.0, 85.0]
    first = look(arm, baseline, DESIGN, 0)
    last = look(arm * 3, baseline * 3, DESIGN, 3)
    assert first is not None
    assert last is not None
    assert (first.stops, last.stops) == (None, "last look")


def test_two_jobs_of_whole_seconds_without_spread_are_no_proof() -> None:
    result = look([40.0] * 2, [41.0] * 2, DESIGN, 0, resolution=1.0)
    assert result is not None
    assert result.ratio.low < 1 < result.ratio.high
    assert look([40.0], [41.0, 41.0], DESIGN, 0) is None


@pytest.mark.parametrize(("repeats", "number"), [(3, 0), (5, 1), (9, 3)])
def test_equal_whole_seconds_have_an_interval(repeats: int, number: int) -> None:
    result = look([40.0] * repeats, [40.0] * repeats, DESIGN, number, resolution=1.0)
    assert result is not None
    assert result.ratio.low < result.ratio.estimate == 1 < result.ratio.high
    assert result.least_ratio < 1


def test_holm_divides_the_error_among_arms_that_show_no_difference() -> None:
    arms = {"equal": scaled(1.0, 3), "cheaper": scaled(0.8, 3), "too few": [80.0]}
    looks = look_at_arms(arms, BASELINE[:3], DESIGN, 0)
    assert set(looks) == {"equal", "cheaper"}
    # Three comparisons at first; two after one of them has shown a difference.
    assert looks["cheaper"].level == pytest.approx(DESIGN.levels(3)[0])
    assert looks["equal"].level == pytest.approx(DESIGN.levels(2)[0])
    assert DESIGN.levels(1)[0] > DESIGN.levels(2)[0] > DESIGN.levels(3)[0]


def test_arms_that_stopped_without_a_difference_still_count() -> None:
    [alone] = look_at_arms({"a": scaled(1.0, 5)}, BASELINE[:5], DESIGN, 1).values()
    [later] = look_at_arms({"a": scaled(1.0, 5)}, BASELINE[:5], DESIGN, 1, others=6).values()
    assert (alone.level, later.level) == pytest.approx((DESIGN.levels(1)[1], DESIGN.levels(7)[1]))
    assert later.ratio.low <= alone.ratio.low
