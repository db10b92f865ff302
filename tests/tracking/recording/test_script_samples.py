"""Samples of a training of Trainer at its steps."""

from __future__ import annotations

import pytest

from tracking.recording.script_log import Training, samples_at

TRAINING = Training(epochs=2, samples=2_400, steps=38)
"""1,200 rows are 19 steps of 64, whose last has 48 rows."""


@pytest.mark.parametrize(("step", "samples"), [(5, 320), (15, 960), (18, 1152), (19, 1200), (24, 1520), (38, 2400)])
def test_all_batches_of_an_epoch_are_whole_but_the_last(step: int, samples: int) -> None:
    assert samples_at(TRAINING, step, float(f"{step / 19:.4g}"), 64) == pytest.approx(samples)


@pytest.mark.parametrize(
    ("training", "per_step"),
    [
        (TRAINING, 0),
        (TRAINING, 32),
        (Training(epochs=2, samples=2_400, steps=None), 64),
        (Training(epochs=1.5, samples=1_800, steps=29), 64),
    ],
)
def test_samples_are_in_proportion_to_the_epochs_if_batches_do_not_explain_them(
    training: Training, per_step: int
) -> None:
    assert samples_at(training, 5, 0.25, per_step) == pytest.approx(300)
