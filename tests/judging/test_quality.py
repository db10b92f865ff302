"""Figures of an arm's quality, worked out by hand."""

from __future__ import annotations

import pytest

from judging.non_inferiority import assess_quality
from tracking.recorded.recorded_job import EVALUATIONS

ACCURACY, LOSS = EVALUATIONS["eval_accuracy"], EVALUATIONS["eval_loss"]


@pytest.mark.parametrize(
    ("arm", "baseline", "is_informative"),
    [
        # Means 0.6 and 0.6, standard deviations 0.1414 and the least one of 0.003: t is about 12.7, +-1.27.
        ([0.5, 0.7], [0.6, 0.6], False),
        # Both variances 0.0002: +-0.0608, less than the limit of 20 margins of 0.03.
        ([0.87, 0.89], [0.87, 0.89], True),
    ],
)
def test_an_interval_of_most_of_the_scale_says_nothing(
    arm: list[float], baseline: list[float], is_informative: bool
) -> None:
    quality = assess_quality(ACCURACY, arm, baseline)
    assert quality is not None
    assert quality.is_informative is is_informative


def test_a_mean_may_be_worse_by_the_margin() -> None:
    """Margins: 0.03 of an accuracy, and 5 % of the baseline's loss of 0.5, which is 0.025."""
    for measure, baseline, within, beyond in ((ACCURACY, 0.9, 0.871, 0.869), (LOSS, 0.5, 0.524, 0.526)):
        for score, is_within in ((within, True), (beyond, False)):
            quality = assess_quality(measure, [score, score], [baseline, baseline])
            assert quality is not None
            assert quality.is_within_margin is is_within
