"""Test cost ratios of arms with a cold compile cache, a warm one, or both. `test_sequential` has those without one."""

from __future__ import annotations

import math
from statistics import fmean, variance

import pytest
from scipy import stats

from judging.cost_ratio import CostRatio, cost_ratio
from judging.result import CacheState, Result

LEVEL = 0.02
COLD, WARM, BASELINE = [150.0], [80.0, 82.0, 81.0, 79.0], [100.0, 103.0, 98.0, 101.0, 99.0]


def results(cache: CacheState, costs: list[float]) -> list[Result]:
    return [Result(cost, cache=cache) for cost in costs]


MIXED = [*results("cold", COLD), *results("warm", WARM)]


def ratio(arm: list[Result], trainings: int = 1) -> CostRatio:
    result = cost_ratio(arm, results("off", BASELINE), level=LEVEL, trainings=trainings)
    assert result is not None
    return result


@pytest.mark.parametrize("trainings", [1, 3, 100])
def test_the_ratio_is_that_of_the_trainings_to_come(trainings: int) -> None:
    result = ratio(MIXED, trainings).ratio
    warm, base = ([math.log(cost) for cost in side] for side in (WARM, BASELINE))
    total = 150 + (trainings - 1) * math.exp(fmean(warm))
    share = 150 / total
    mine = variance(warm) * (share**2 + (1 - share) ** 2 / 4)
    others = variance(base) / 5
    freedom = (mine + others) ** 2 / (mine**2 / 3 + others**2 / 4)
    half_width = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * math.sqrt(mine + others)
    estimate = math.log(total / trainings) - fmean(base)
    logs = [math.log(end) for end in (result.estimate, result.low, result.high)]
    assert logs == pytest.approx([estimate, estimate - half_width, estimate + half_width])
    assert (result.n_arm, result.n_baseline) == (5, 5)


def test_each_cache_state_has_its_own_ratio() -> None:
    result = ratio(MIXED)
    assert result.cold is not None
    assert result.warm is not None
    assert result.cold.estimate == pytest.approx(result.ratio.estimate)
    assert (result.cold.n_arm, result.warm.n_arm) == (1, 4)
    assert result.warm == ratio(results("warm", WARM)).ratio


def test_the_first_number_of_trainings_that_is_shown_to_be_cheaper_is_named() -> None:
    first = ratio(MIXED).cheaper_from
    assert first is not None
    # The estimates say that the fourth training is ahead: 150 + 3 x 80.5 < 4 x 100.2. The interval needs one more.
    assert first == 5
    assert ratio(MIXED, first - 1).ratio.high >= 1 > ratio(MIXED, first).ratio.high


def test_a_setting_that_never_gains_is_cheaper_from_no_number_of_trainings_on() -> None:
    assert ratio([*results("cold", COLD), *results("warm", [101.0, 99.0, 100.0])]).cheaper_from is None


def test_failures_of_a_mixed_arm_add_their_cost() -> None:
    failed = [*MIXED, Result(118.0, succeeded=False)]  # a quarter of 150 + 80 + 82 + 81 + 79
    plain, dearer = ratio(MIXED), ratio(failed)
    assert dearer.ratio.estimate == pytest.approx(1.25 * plain.ratio.estimate)
    assert dearer.warm is not None
    assert plain.warm is not None
    assert dearer.warm.high == pytest.approx(1.25 * plain.warm.high)
    assert dearer.warm.low == plain.warm.low
    assert dearer.cheaper_from is None  # 1.25 x 80.5 is more than 100


def test_two_jobs_of_different_states_have_no_ratio() -> None:
    two = [*results("cold", COLD), *results("warm", [80.0])]
    assert cost_ratio(two, results("off", BASELINE), level=LEVEL) is None
    assert cost_ratio(results("cold", COLD), results("warm", BASELINE), level=LEVEL) is None
