"""Step time as a function of the batch size. A sweep fits it to its calibrations, and the sweep's report draws it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Step time as a straight line over the batch size: fixed seconds per step plus seconds per sample."""

    step_seconds_fixed: float
    """Seconds of a step that do not depend on the batch size."""
    step_seconds_per_sample: float
    """Additional seconds for each sample of one device."""
    relative_error: float
    """Mean error of predicting each measured size from a line through the other sizes, relative to its step time; NaN
    below three sizes."""

    def step_seconds(self, batch_size: float) -> float:
        """Return the seconds of a step with this batch size."""
        return self.step_seconds_fixed + self.step_seconds_per_sample * batch_size
