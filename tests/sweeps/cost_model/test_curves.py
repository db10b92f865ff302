"""Comparison of curves at equal samples and equal quality, worked out by hand."""

from __future__ import annotations

import math

import pytest

from sweeps.cost_model.curves import best_value, diverged, samples_to_reach, seconds_per_sample, value_at
from sweeps.space.objective import CurvePoint, Quality

LOSS = Quality(metric="eval_loss", higher_is_better=False)
SCORE = Quality(metric="eval_accuracy", higher_is_better=True)


def curve(*values: float, seconds: float = 1.0) -> list[CurvePoint]:
    """An evaluation every 100 samples, `seconds` apart after a start of 10 s."""
    return [
        CurvePoint(samples=100 * at, value=value, billable_instance_seconds=10 + seconds * at)
        for at, value in enumerate(values, start=1)
    ]


def test_the_samples_to_a_value_are_interpolated() -> None:
    falling = curve(1.0, 0.8, 0.4)
    assert samples_to_reach(LOSS, falling, 0.8) == 200
    assert samples_to_reach(LOSS, falling, 0.5) == pytest.approx(275)
    assert samples_to_reach(LOSS, falling, 1.5) == 100
    assert samples_to_reach(LOSS, falling, 0.3) == math.inf
    assert samples_to_reach(SCORE, curve(0.2, 0.4, 0.6), 0.5) == pytest.approx(250)
    assert samples_to_reach(LOSS, curve(math.nan, 0.4), 0.5) == 200


def test_a_value_is_interpolated_within_the_curve() -> None:
    falling = curve(1.0, 0.8, 0.4)
    assert value_at(falling, 250) == pytest.approx(0.6)
    assert value_at(falling, 300) == pytest.approx(0.4)
    assert value_at(falling[:1], 100) == 1.0
    assert math.isnan(value_at(falling, 99))
    assert math.isnan(value_at(falling, 301))
    assert math.isnan(value_at([], 0))


def test_the_best_value_may_not_be_the_last() -> None:
    assert best_value(LOSS, curve(1.0, 0.5, 0.7)) == 0.5
    assert best_value(SCORE, curve(0.1, 0.5, 0.7), up_to=200) == 0.5
    assert math.isnan(best_value(LOSS, curve(math.nan)))


def test_the_cost_of_a_sample_leaves_out_the_first_evaluation() -> None:
    assert seconds_per_sample(curve(1.0, 0.8, 0.4, seconds=3.0)) == pytest.approx(0.03)
    assert math.isnan(seconds_per_sample(curve(1.0)))


@pytest.mark.parametrize(
    ("quality", "values", "expected"),
    [
        (LOSS, (1.0, 0.9, math.nan), True),
        (LOSS, (1.0, math.inf), True),
        (LOSS, (1.0, 1.2, 1.3, 1.4), True),
        (LOSS, (1.0, 1.2, 1.3), False),
        (LOSS, (1.0, 1.2, 1.05, 1.4), False),
        (LOSS, (1.0, 0.5, 0.9, 1.0, 1.05), False),
        (SCORE, (0.5, 0.4, 0.4, 0.4), True),
        (SCORE, (0.3, 0.29, 0.29, 0.29), False),
        (LOSS, (), False),
    ],
)
def test_a_training_that_stays_worse_than_it_began_has_diverged(
    quality: Quality, values: tuple[float, ...], expected: bool
) -> None:
    assert diverged(quality, curve(*values)) is expected
