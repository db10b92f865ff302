"""Replayed interruptions, worked out by hand."""

from __future__ import annotations

import math

import pytest

from benchmarks.spot.replay import replayed_seconds
from judging.spot.expected_time import Training, uninterrupted_seconds

TRAINING = Training(startup_seconds=10.0, work_seconds=60.0, checkpoint_seconds=2.0)
"""Checkpoints after 32, 54 and 76 s of a start, with an interval of 20 s."""


def test_without_a_kill_it_takes_its_uninterrupted_time() -> None:
    assert replayed_seconds(TRAINING, 20.0, iter([math.inf])) == 76.0 == uninterrupted_seconds(TRAINING, 20.0)


def test_a_kill_loses_what_is_not_in_a_checkpoint() -> None:
    """Killed after 40 s with one checkpoint at 32 s; then 10 s and two parts of 22 s."""
    assert replayed_seconds(TRAINING, 20.0, iter([40.0, 100.0])) == 94.0


def test_a_kill_in_a_checkpoint_or_the_start_up_gains_nothing() -> None:
    assert replayed_seconds(TRAINING, 20.0, iter([31.9, 5.0, 76.0])) == pytest.approx(112.9)


def test_a_training_that_does_not_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not end"):
        replayed_seconds(TRAINING, 20.0, iter([5.0, 5.0]))
