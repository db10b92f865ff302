"""Test simulated comparisons in waves without noise, and their error rates with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from benchmarks.recorded.noise import normal
from benchmarks.recorded.simulated_waves import Setting, Waves, simulate_waves, simulations
from judging.design import Design

NOISY = Waves(seconds=normal(0.04))
STEADY = Waves(seconds=normal(0.001))


@pytest.mark.parametrize(("ratio", "reason"), [(0.9, "cheaper"), (1.1, "dearer"), (1.0, "no gain worth having")])
def test_clear_comparisons_stop_at_the_first_look(ratio: float, reason: str) -> None:
    random = np.random.default_rng(1)
    ends = [simulate_waves(replace(STEADY, arms=(Setting(), Setting(ratio=ratio))), random) for _ in range(20)]
    assert {each.jobs for each in ends} == {6}
    assert sum(each.reasons == (reason,) for each in ends) >= 18


def test_arms_drop_out_one_by_one() -> None:
    waves = replace(NOISY, arms=(Setting(), Setting(ratio=0.5), Setting(ratio=0.96)), design=Design(least_gain=0.01))
    ended = simulate_waves(waves, np.random.default_rng(4))
    assert ended.reasons[0] == "cheaper"
    # The first arm stops after 3 repeats; the other arm and the baseline continue in whole waves.
    assert ended.jobs in {3 + 2 * repeats for repeats in (5, 7, 9)}


def test_equal_arms_rarely_differ_and_a_gain_is_found() -> None:
    # The standard error of a share of 5 % of 400 is 0.011.
    equal = simulations(NOISY, 400, seed=1)
    assert sum(each.reasons[0] in ("cheaper", "dearer") for each in equal) / 400 <= 0.08
    better = simulations(replace(NOISY, arms=(Setting(), Setting(ratio=0.9))), 400, seed=1)
    assert sum(each.reasons == ("cheaper",) for each in better) / 400 >= 0.9
    assert np.mean([each.jobs for each in better]) <= 12


def test_a_cold_first_job_costs_more_than_the_later_ones() -> None:
    compiled = replace(STEADY, arms=(Setting(), Setting(ratio=0.9, cold_ratio=1.5)))
    assert simulate_waves(compiled, np.random.default_rng(1)).reasons == ("dearer",)
    often = replace(compiled, design=Design(trainings=1_000))
    assert simulate_waves(often, np.random.default_rng(1)).reasons == ("cheaper",)


@pytest.mark.parametrize(("accuracy", "reason"), [(0.9, "cheaper"), (0.8, "quality lost")])
def test_quality_is_judged_with_the_cost(accuracy: float, reason: str) -> None:
    better = (Setting(), Setting(ratio=0.8, accuracy=accuracy))
    waves = replace(STEADY, arms=better, scores=normal(0.001))
    assert simulate_waves(waves, np.random.default_rng(1)).reasons == (reason,)


def test_a_shared_deviation_of_the_seed_cancels() -> None:
    better = replace(STEADY, arms=(Setting(), Setting(ratio=0.8)), scores=normal(0.1))
    apart = simulations(better, 20, seed=1)
    paired = simulations(replace(better, is_paired=True), 20, seed=1)
    assert {each.jobs for each in paired} == {6}
    assert np.mean([each.jobs for each in apart]) > 12
    different = simulations(replace(better, is_paired=True, seed_differences=normal(0.1)), 20, seed=1)
    assert np.mean([each.jobs for each in different]) > 12


@pytest.mark.parametrize(("rule", "jobs"), [("keep", 6), ("repeat", 12)])
def test_disturbed_jobs_run_again_if_asked(rule: Literal["keep", "repeat"], jobs: int) -> None:
    better = (Setting(), Setting(ratio=0.9))
    waves = replace(
        STEADY, arms=better, slowdowns=normal(0.001), disturbed_share=1.0, design=Design(when_disturbed=rule)
    )
    ended = simulate_waves(waves, np.random.default_rng(1))
    assert (ended.reasons, ended.jobs) == (("cheaper",), jobs)
