"""A step's time over the batch size: what a sweep fits to its calibrations, and its report draws. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Step time as a line over the batch size: what each step costs, and what each sample."""

    step_seconds_fixed: float
    """Seconds of a step, whatever its size."""
    step_seconds_per_sample: float
    """Seconds of a sample of one device."""
    relative_error: float
    """Mean distance of a measured size from the line through the others, as a share of its step; NaN of under three."""

    def step_seconds(self, batch_size: float) -> float:
        """Return the seconds of a step."""
        return self.step_seconds_fixed + self.step_seconds_per_sample * batch_size
