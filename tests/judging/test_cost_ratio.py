"""Test cost ratios of arms with cold compile caches, failed jobs or stragglers. `test_sequential` has the others."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from judging.cost_ratio import CostRatio, cost_ratio
from judging.result import CacheState, Result

LEVEL = 0.02
BASELINE = [100.0, 103.0, 98.0, 101.0, 99.0]


def results(cache: CacheState, costs: list[float]) -> list[Result]:
    return [Result(cost, cache=cache) for cost in costs]


def ratio(arm: list[Result], baseline: list[float] = BASELINE) -> CostRatio:
    result = cost_ratio(arm, results("off", baseline), level=LEVEL)
    assert result is not None
    return result


def test_one_cold_job_decides_nothing() -> None:
    # By one cold job with the spread of the warm ones, the arm was called cheaper: 0.95 (0.913 to 0.988).
    base = [100.1, 99.2, 100.8]
    result = ratio([*results("cold", [95.0]), *results("warm", [80.2, 79.5])], base)
    warm = ratio(results("warm", [80.2, 79.5]), base)
    assert (result.ratio, result.least_ratio) == (warm.ratio, warm.least_ratio)
    assert warm.ratio.estimate == pytest.approx(math.sqrt(80.2 * 79.5) / (100.1 * 99.2 * 100.8) ** (1 / 3))
    assert result.cold is not None
    assert result.cold.ratio == pytest.approx(95 / (100.1 * 99.2 * 100.8) ** (1 / 3))


def test_jobs_that_all_started_cold_are_compared() -> None:
    assert ratio(results("cold", [150.0, 151.0])).ratio.estimate == pytest.approx(1.5, abs=0.02)
    assert ratio(results("cold", [150.0, 151.0])).cold is None


def test_the_mean_bill_counts_a_job_that_took_twice_as_long() -> None:
    result = ratio(results("off", [80.0, 81.0, 82.0, 83.0, 300.0]))
    assert result.ratio.estimate < 0.9
    assert result.bills == pytest.approx((626 / 5) / (501 / 5))


def test_failed_jobs_add_their_cost_with_their_own_error() -> None:
    # Three models for 80 + 82 + 81 + 57 = 300 s: 100 s each. Mean payment 75, share of successes 0.75.
    arm = [*results("off", [80.0, 82.0, 81.0]), Result(57.0, succeeded=False)]
    result = ratio(arm)
    deviations = [80 / 75 - 1 / 0.75, 82 / 75 - 1 / 0.75, 81 / 75 - 1 / 0.75, 57 / 75]
    mine = sum(each**2 for each in deviations) / 3 / 4
    others = sum((cost / 100.2 - 1) ** 2 for cost in BASELINE) / 4 / 5
    freedom = (mine + others) ** 2 / (mine**2 / 3 + others**2 / 4)
    half_width = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * math.sqrt(mine + others)
    estimate = math.log(100 / 100.2)
    logs = [math.log(end) for end in (result.ratio.estimate, result.ratio.low, result.ratio.high)]
    assert logs == pytest.approx([estimate, estimate - half_width, estimate + half_width])
    assert result.bills == pytest.approx(result.ratio.estimate)
    assert (result.ratio.n_arm, result.ratio.n_baseline) == (3, 5)


def test_two_jobs_of_different_states_have_no_ratio() -> None:
    two = [*results("cold", [150.0]), *results("warm", [80.0])]
    assert cost_ratio(two, results("off", BASELINE), level=LEVEL) is None
    assert cost_ratio(results("cold", [150.0]), results("warm", BASELINE), level=LEVEL) is None
