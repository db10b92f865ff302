"""The quality check on plain sequences, worked out by hand."""

from __future__ import annotations

import pytest

from judging.quality import compare_quality
from tracking.recorded.recorded_job import EVALUATIONS

ACCURACY = EVALUATIONS["eval_accuracy"]


def test_a_score_may_fall_by_its_tolerance() -> None:
    assert compare_quality(ACCURACY, [0.891, 0.891], [0.9, 0.9]).kept
    lower = compare_quality(ACCURACY, [0.889, 0.889], [0.9, 0.9])
    assert not lower.kept
    assert lower.shown_worse
    assert (lower.arm, lower.baseline) == pytest.approx((0.889, 0.9))


def test_a_loss_of_quality_within_the_noise_is_not_shown() -> None:
    # Means 0.88 and 0.90, both variances 0.0002: error sqrt(0.0002), 2 degrees of freedom, t = 4.302653: +-0.0608.
    noisy = compare_quality(ACCURACY, [0.87, 0.89], [0.89, 0.91])
    assert (noisy.kept, noisy.shown_worse) == (False, False)
    assert noisy.difference is not None
    assert noisy.difference.high - noisy.difference.estimate == pytest.approx(4.302653 * 0.0002**0.5, rel=1e-6)


def test_one_value_a_side_has_no_interval() -> None:
    single = compare_quality(ACCURACY, [0.5], [0.9])
    assert (single.kept, single.shown_worse, single.difference) == (False, False, None)


def test_an_interval_of_most_of_the_scale_says_nothing() -> None:
    # Means 0.6 and 0.6, variances 0.02 and 0.0: error sqrt(0.01), 1 degree of freedom, t = 12.706: +-1.27.
    assert not compare_quality(ACCURACY, [0.5, 0.7], [0.6, 0.6]).is_informative
    # Both variances 0.0002: +-0.0608, less than the limit of 20 margins of 0.03.
    assert compare_quality(ACCURACY, [0.87, 0.89], [0.87, 0.89]).is_informative
    assert not compare_quality(ACCURACY, [0.5], [0.9]).is_informative
