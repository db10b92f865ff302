"""Scaling rules, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recorded.replay import reached_targets
from sweeps.search_space import Optimiser, ScalingRule, linear_note, scale

BASE = Optimiser(learning_rate=3e-5, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8)


def test_linear_is_the_reference_workloads_rule() -> None:
    # 3e-5 / 32 * 52, the compiled arm of the SQuAD workload.
    scaled = scale("linear", BASE, base_batch_size=32, global_batch_size=52)
    assert scaled.learning_rate == pytest.approx(4.875e-5)
    assert (scaled.adam_beta1, scaled.adam_beta2, scaled.adam_epsilon) == (0.9, 0.999, 1e-8)


def test_sqrt_adam_scales_betas_and_epsilon_too() -> None:
    # k = 4: the rate doubles; 1 - 4 * 0.1 = 0.6; 1 - 4 * 0.001 = 0.996; 1e-8 / 2.
    scaled = scale("sqrt_adam", BASE, base_batch_size=32, global_batch_size=128)
    assert scaled.learning_rate == pytest.approx(6e-5)
    assert scaled.adam_beta1 == pytest.approx(0.6)
    assert scaled.adam_beta2 == pytest.approx(0.996)
    assert scaled.adam_epsilon == pytest.approx(5e-9)
    # A multiplier scales only the learning rate, and the other rules only the rate or nothing.
    quarter = scale("sqrt_adam", BASE, base_batch_size=32, global_batch_size=128, multiplier=0.25)
    assert quarter == replace(scaled, learning_rate=pytest.approx(1.5e-5))
    sqrt = scale("sqrt", BASE, base_batch_size=32, global_batch_size=128)
    assert sqrt == replace(BASE, learning_rate=pytest.approx(6e-5))
    assert scale("none", BASE, base_batch_size=1, global_batch_size=4096) == BASE


def test_sqrt_adam_keeps_a_beta_at_zero() -> None:
    # k = 16: 1 - 16 * 0.1 = -0.6, held at 0; 1 - 16 * 0.001 = 0.984.
    scaled = scale("sqrt_adam", BASE, base_batch_size=8, global_batch_size=128)
    assert scaled.adam_beta1 == 0.0
    assert scaled.adam_beta2 == pytest.approx(0.984)


@pytest.mark.parametrize(("largest", "rate"), [(None, 9.6e-4), (1e-3, 9.6e-4), (5e-4, 5e-4)])
def test_the_learning_rate_is_limited_to_the_largest(largest: float | None, rate: float) -> None:
    """3e-5 at 32 is 4.8e-4 at 512, and twice that 9.6e-4."""
    sizes = {"base_batch_size": 32, "global_batch_size": 512}
    scaled = scale("linear", BASE, **sizes, multiplier=2.0, largest_learning_rate=largest)
    assert scaled.learning_rate == pytest.approx(rate)


def test_a_batch_that_grows_with_the_linear_rule_is_noted() -> None:
    note = linear_note({"a": (32, 3e-5), "b": (64, 6e-5), "c": (96, 9e-5), "d": (128, 6e-5), "e": (128, 1.2e-4)})
    assert len(note) == 1
    assert note[0].startswith("c and e: the learning rate grows as much as the batch size (learning_rate_scaling:")
    assert linear_note({}) == linear_note({"a": (32, math.nan), "c": (96, 9e-5)}) == []
    # What the recorded grids show.
    (linear, sizes), (square_root, _) = reached_targets(1.0), reached_targets(0.5)
    assert f"only {linear} of {sizes} larger batches reached the target in this way, and {square_root} " in note[0]


@given(st.sampled_from(get_args(ScalingRule)), st.integers(1, 10**6), st.integers(1, 10**6))
def test_betas_stay_in_their_range(rule: str, base_batch: int, batch: int) -> None:
    scaled = scale(rule, BASE, base_batch_size=base_batch, global_batch_size=batch)  # type: ignore[arg-type]
    assert 0.0 <= scaled.adam_beta1 < 1.0
    assert 0.0 <= scaled.adam_beta2 < 1.0
    assert scaled.adam_epsilon > 0.0
    same = scale(rule, BASE, base_batch_size=batch, global_batch_size=batch)  # type: ignore[arg-type]
    assert same.learning_rate == BASE.learning_rate
    assert same.adam_beta1 == pytest.approx(BASE.adam_beta1)
