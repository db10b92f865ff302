"""Test costs by the state of the compile cache."""

from __future__ import annotations

import math

import pytest

from judging.cache_states import LogCosts, log_costs, mean_of_trainings
from judging.result import CacheState, Result


def results(cache: CacheState, *costs: float) -> list[Result]:
    return [Result(cost, cache=cache) for cost in costs]


def costs(logs: LogCosts) -> tuple[list[float], list[float]]:
    cold, later = ([round(math.exp(value), 6) for value in side] for side in (logs.cold, logs.later))
    return cold, later


OFF = results("off", 100, 101)


def test_costs_are_split_by_state() -> None:
    mine, others = log_costs([*results("cold", 150), *results("warm", 80, 82)], OFF)
    assert costs(mine) == ([150], [80, 82])
    assert costs(others) == ([], [100, 101])
    assert mine.is_mixed
    assert not others.is_mixed
    assert mine.of_state(is_cold=True).all == mine.cold
    assert mine.of_state(is_cold=False).all == mine.later
    assert others.of_state(is_cold=True) == others


def test_a_state_that_only_one_of_two_caching_arms_has_is_left_out() -> None:
    mixed = [*results("cold", 150), *results("warm", 80, 82)]
    assert [costs(side) for side in log_costs(mixed, results("warm", 90, 91))] == [([], [80, 82]), ([], [90, 91])]
    assert [costs(side) for side in log_costs(mixed, results("cold", 160))] == [([150], []), ([160], [])]
    assert [costs(side) for side in log_costs(results("cold", 150), results("warm", 90))] == [([], []), ([], [])]


def test_a_partly_filled_cache_counts_only_if_there_is_no_other_state() -> None:
    partial = results("partial", 120, 121)
    assert costs(log_costs([*partial, *results("warm", 80)], OFF)[0]) == ([], [80])
    assert costs(log_costs(partial, OFF)[0]) == ([], [120, 121])


def test_failed_jobs_and_jobs_without_a_bill_have_no_state() -> None:
    uncounted = [Result(70, succeeded=False, cache="cold"), Result(None, cache="cold")]
    assert costs(log_costs([*uncounted, *results("warm", 80)], OFF)[0]) == ([], [80])


def test_the_mean_of_one_state_is_the_geometric_mean() -> None:
    estimate = mean_of_trainings(LogCosts((), (math.log(80), math.log(125))), 7)
    assert estimate is not None
    assert math.exp(estimate.value) == pytest.approx(100)
    # The variance of two values is half the square of their difference, and that of their mean half of it again.
    assert estimate.variance == pytest.approx(math.log(125 / 80) ** 2 / 4)
    assert estimate.degrees_of_freedom == 1


@pytest.mark.parametrize(
    ("trainings", "mean", "share"), [(1, 150, 1), (2, (150 + 90) / 2, 150 / 240), (6, 600 / 6, 150 / 600)]
)
def test_the_first_training_is_cold_and_later_ones_are_warm(trainings: int, mean: float, share: float) -> None:
    # The geometric mean of the warm jobs is 90, and their logarithms differ by log(100 / 81).
    estimate = mean_of_trainings(LogCosts((math.log(150),), (math.log(81), math.log(100))), trainings)
    assert estimate is not None
    assert math.exp(estimate.value) == pytest.approx(mean)
    spread = math.log(100 / 81) ** 2 / 2
    assert estimate.variance == pytest.approx(spread * (share**2 + (1 - share) ** 2 / 2))
    assert estimate.degrees_of_freedom == 1


def test_too_few_jobs_have_no_mean() -> None:
    assert mean_of_trainings(LogCosts((), (4.0,)), 1) is None
    assert mean_of_trainings(LogCosts((5.0,), (4.0,)), 1) is None
