"""Test the comparison by ranks: numbers worked out by hand, and scipy's exact test."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from judging.cost_ratio import rank_test


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


def test_one_slow_job_hardly_moves_the_estimate() -> None:
    arm, baseline = [0.90, 0.91, 0.92, 0.93, 0.94], [1.00, 1.01, 1.02, 1.03, 1.04]
    assert rank_test([*arm[:4], 9.0], baseline).estimate == pytest.approx(rank_test(arm, baseline).estimate, abs=0.02)


def test_hundreds_of_jobs_need_little_memory() -> None:
    """120 jobs against 120 have 14,401 possible counts, each with up to 240 bits."""
    tracemalloc.start()
    try:
        test = rank_test([0.0] * 120, [1.0] * 120)
        assert test.fits(0.025)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
