"""Step time as a function of the batch size: fitted by a sweep to its calibrations, drawn by its report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Step time as a straight line over the batch size: a fixed cost per step plus a cost per sample."""

    step_seconds_fixed: float
    """Seconds of a step that do not depend on its size."""
    step_seconds_per_sample: float
    """Seconds per sample of one device."""
    relative_error: float
    """Mean distance of a measured size from the line fitted to the others, relative to its step time; NaN below three
    sizes."""

    def step_seconds(self, batch_size: float) -> float:
        """Return the seconds of a step with this batch size."""
        return self.step_seconds_fixed + self.step_seconds_per_sample * batch_size
