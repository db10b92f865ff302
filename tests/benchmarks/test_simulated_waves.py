"""Test simulated comparisons in waves without noise, and their error rates with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.bench_verdict import normal, with_drift
from benchmarks.recorded.simulated_waves import Waves, simulate_waves, simulations
from judging.design import Design

NOISY = Waves(seconds=normal(0.04))
STEADY = Waves(seconds=normal(0.001))


@pytest.mark.parametrize(("ratio", "reason"), [(0.9, "cheaper"), (1.1, "dearer"), (1.0, "no gain worth having")])
def test_clear_comparisons_stop_at_the_first_look(ratio: float, reason: str) -> None:
    random = np.random.default_rng(1)
    ends = [simulate_waves(replace(STEADY, ratios=(ratio,)), random) for _ in range(20)]
    assert {each.jobs for each in ends} == {6}
    assert sum(each.reasons == (reason,) for each in ends) >= 18


def test_arms_drop_out_one_by_one() -> None:
    waves = replace(NOISY, ratios=(0.5, 0.96), design=Design(least_gain=0.01))
    ended = simulate_waves(waves, np.random.default_rng(4))
    assert ended.reasons[0] == "cheaper"
    # The first arm stops after 3 repeats; the other arm and the baseline continue in whole waves.
    assert ended.jobs in {3 + 2 * repeats for repeats in (5, 7, 9)}


def test_a_drift_misleads_no_comparison() -> None:
    ends = simulations(replace(STEADY, seconds=with_drift(normal(0.01))), 200, seed=1)
    assert sum(each.reasons[0] in ("cheaper", "dearer") for each in ends) <= 4


def test_equal_arms_rarely_differ_and_a_gain_is_found() -> None:
    # The standard error of a share of 5 % of 400 is 0.011.
    equal = simulations(NOISY, 400, seed=1)
    assert sum(each.reasons[0] in ("cheaper", "dearer") for each in equal) / 400 <= 0.08
    better = simulations(replace(NOISY, ratios=(0.9,)), 400, seed=1)
    assert sum(each.reasons == ("cheaper",) for each in better) / 400 >= 0.9
    assert np.mean([each.jobs for each in better]) <= 12
