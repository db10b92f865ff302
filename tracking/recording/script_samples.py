"""Samples of a training of Trainer at a step, once the summary has reported the samples of all epochs. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Training:
    """A training that has ended."""

    epochs: float
    samples: float
    """Samples of all epochs."""
    steps: int | None
    """Steps of all epochs, if the log shows them."""


def samples_at(training: Training, step: int, epoch: float, per_step: int) -> float:
    """Return the samples after `step` steps, which end at `epoch`, with at most `per_step` samples a step.

    All steps of an epoch are whole batches, except the last one. If this does not explain the number of all steps, as
    in a resumed training, or `per_step` is 0 because it is not known, the samples are in proportion to the epochs.
    """
    rows, whole = training.samples / training.epochs, math.floor(epoch + 1e-6)
    steps = math.ceil(rows / per_step) if per_step else 0
    if not steps or training.epochs % 1 or steps * training.epochs != training.steps or whole >= training.epochs:
        return training.samples * min(1.0, epoch / training.epochs)
    return whole * rows + min(rows, (step - whole * steps) * per_step)
