"""Test when the quality of an arm is shown to be kept. Figures are worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from judging.non_inferiority import assess_quality
from judging.quality import Quality
from tracking.recorded.recorded_job import EVALUATIONS

ACCURACY = EVALUATIONS["eval_accuracy"]
LOSS = EVALUATIONS["eval_loss"]


def assessed(arm: list[float], baseline: list[float], **options: float) -> Quality:
    quality = assess_quality(ACCURACY, arm, baseline, **options)
    assert quality is not None
    return quality


def test_the_bound_is_the_largest_loss_that_is_not_ruled_out() -> None:
    # Means 0.88 and 0.90, variances 0.0001: error sqrt(0.0002 / 3), 4 degrees of freedom, t(0.95) = 2.131847.
    quality = assessed([0.87, 0.88, 0.89], [0.89, 0.90, 0.91])
    assert quality.most_lost == pytest.approx(0.02 + 2.131847 * math.sqrt(0.0002 / 3), rel=1e-6)
    assert (quality.arm, quality.baseline, quality.margin) == pytest.approx((0.88, 0.90, 0.03))
    assert not quality.kept
    assert not quality.shown_beyond


def test_an_equal_arm_keeps_the_quality_only_with_enough_repeats() -> None:
    scores = [0.86, 0.90, 0.88]
    assert not assessed(scores, scores).kept
    assert assessed(scores * 3, scores * 3).kept


def test_a_stricter_level_needs_a_better_arm() -> None:
    arm, baseline = [0.885, 0.89, 0.88], [0.89, 0.90, 0.88]
    assert assessed(arm, baseline).kept
    assert not assessed(arm, baseline, level=0.01).kept


def test_an_arm_that_is_clearly_worse_is_beyond_the_margin() -> None:
    quality = assessed([0.80, 0.81, 0.79], [0.90, 0.91, 0.89])
    assert quality.shown_beyond
    assert quality.repeats_to_show is None


def test_a_margin_of_the_user_replaces_the_default() -> None:
    arm, baseline = [0.87, 0.88, 0.89], [0.89, 0.90, 0.91]
    assert assessed(arm, baseline, margin=0.05).kept


def test_a_loss_may_rise_by_a_share_of_the_baselines() -> None:
    quality = assess_quality(LOSS, [2.05, 2.06, 2.04], [2.0, 2.01, 1.99])
    assert quality is not None
    assert quality.margin == pytest.approx(0.1)
    assert quality.most_lost == pytest.approx(0.05 + 2.131847 * math.sqrt(0.0002 / 3), rel=1e-6)
    assert quality.kept


def test_equal_scores_do_not_prove_a_spread_of_zero() -> None:
    quality = assessed([0.9, 0.9], [0.9, 0.9])
    # Least spread 0.003: error 0.003, 2 degrees of freedom, t(0.95) = 2.919986.
    assert quality.most_lost == pytest.approx(2.919986 * 0.003, rel=1e-6)


def test_pairs_of_the_same_seed_show_it_sooner() -> None:
    arm, baseline = [0.80, 0.91, 0.85], [0.81, 0.90, 0.85]
    assert not assessed(arm, baseline).kept
    quality = assess_quality(ACCURACY, arm, baseline, is_paired=True)
    assert quality is not None
    # Differences -0.01, 0.01, 0: mean 0, standard deviation 0.01, 2 degrees of freedom, t(0.95) = 2.919986.
    assert quality.most_lost == pytest.approx(2.919986 * 0.01 / math.sqrt(3), rel=1e-6)
    assert quality.kept
    # 3 pairs: (2.919986 + 1.060660) x 0.01 / sqrt(3) = 0.0230, and 2: (6.313752 + 1.376382) x 0.01 / sqrt(2) = 0.0544.
    assert quality.repeats_to_show == 3


def test_one_score_a_side_shows_nothing() -> None:
    assert assess_quality(ACCURACY, [0.9], [0.9, 0.9]) is None


@pytest.mark.parametrize(("spread", "repeats"), [(0.0228, 8), (0.01, 3)])
def test_the_repeats_that_would_show_it(spread: float, repeats: int) -> None:
    # 8 repeats: (1.76131 + 0.86805) x 0.0228 x sqrt(2 / 8) = 0.02997. 3: (2.13185 + 0.94097) x 0.01 x sqrt(2 / 3).
    scores = [0.9 - spread, 0.9, 0.9 + spread]
    assert assessed(scores, scores).repeats_to_show == repeats


def test_an_arm_that_is_worse_by_the_margin_passes_in_five_percent() -> None:
    random = np.random.default_rng(1)
    passed = [
        assessed(list(random.normal(0.87, 0.02, 9)), list(random.normal(0.90, 0.02, 9))).kept for _ in range(2000)
    ]
    assert np.mean(passed) == pytest.approx(0.05, abs=0.015)
