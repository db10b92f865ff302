"""Test cost ratios of arms with cold compile caches, failed jobs or stragglers. `test_sequential` has the others."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from judging.cost_ratio import CostRatio, cost_ratio, rank_test
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


def test_three_against_three_by_hand() -> None:
    ranks = rank_test([1.0, 2.0, 4.0], [5.0, 6.0, 9.0])
    assert ranks.differences == (-8, -7, -5, -5, -4, -4, -3, -2, -1)
    assert ranks.estimate == -4
    # All 9 pairs favour the arm, as in 1 of the 20 orders of three and three.
    assert not ranks.fits(0.025)
    assert ranks.fits(0.05)
    assert (ranks.low(0.05), ranks.high(0.05)) == (-8, -1)


def test_five_against_five_keep_the_tabled_critical_value() -> None:
    # Mann and Whitney's table: with 5 and 5 jobs, U <= 2 has a probability of 4 / 252 and U <= 3 one of 7 / 252.
    ranks = rank_test([0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert ranks.low(4 / 252) == ranks.differences[2]
    assert ranks.high(4 / 252) == ranks.differences[-3]
    assert ranks.low(7 / 252 - 1e-9) == ranks.differences[2]
    assert ranks.low(7 / 252) == ranks.differences[3]


@pytest.mark.parametrize(("n_arm", "n_baseline"), [(1, 1), (2, 5), (5, 5), (7, 4), (9, 9)])
def test_intervals_agree_with_scipys_test(n_arm: int, n_baseline: int) -> None:
    random = np.random.default_rng(3)
    for shift in (0.0, 1.0, 3.0):
        arm, baseline = random.normal(shift, 1, n_arm), random.normal(0, 1, n_baseline)
        ranks = rank_test(list(arm), list(baseline))
        if ranks.fits(0.025):
            # The interval leaves out 0 exactly when the test rejects it.
            p_value = stats.mannwhitneyu(arm, baseline, method="exact").pvalue
            assert (ranks.low(0.025) > 0 or ranks.high(0.025) < 0) == (p_value <= 0.05)


def test_hundreds_of_jobs_need_little_memory() -> None:
    """120 jobs against 120 have 14,401 possible counts, each with up to 240 bits."""
    tracemalloc.start()
    try:
        test = rank_test([0.0] * 120, [1.0] * 120)
        assert test.fits(0.025)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
