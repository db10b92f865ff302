"""Time of a training with given interruptions, by the model of `judging.spot`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from judging.spot.expected_time import Training


def replayed_seconds(training: Training, interval_seconds: float, lives_seconds: Iterator[float]) -> float:
    """Return the running time if the starts of the training live for these times at most, in order.

    `interval_seconds` is the work between two checkpoints.
    """
    total, left = 0.0, training.work_seconds
    for life in lives_seconds:
        elapsed, now_left = training.startup_seconds, left
        while now_left > 1e-9:
            part = min(interval_seconds, now_left)
            elapsed += part + training.checkpoint_seconds
            if elapsed > life:
                break
            now_left -= part
        if now_left <= 1e-9:
            return total + elapsed
        total, left = total + life, now_left
    raise ValueError("the starts live too short: the training does not end")
