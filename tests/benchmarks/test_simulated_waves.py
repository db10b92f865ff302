"""Test simulated comparisons in waves without noise, and their error rates with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.recorded.noise import Setting, Waves, normal, simulations

NOISY = Waves(seconds=normal(0.04))


def test_equal_arms_rarely_differ_and_a_gain_is_found() -> None:
    # The standard error of a share of 5 % of 400 is 0.011.
    equal = simulations(NOISY, 400, seed=1)
    assert sum(each.reasons[0] in ("cheaper", "dearer") for each in equal) / 400 <= 0.08
    better = simulations(replace(NOISY, arms=(Setting(), Setting(ratio=0.9))), 400, seed=1)
    assert sum(each.reasons == ("cheaper",) for each in better) / 400 >= 0.9
    assert np.mean([each.jobs for each in better]) <= 12
