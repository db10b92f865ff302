"""What the authors of a recipe published of it: shown beside what is measured here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from training.staging.sources.request import Frozen, Name

Ratio = Annotated[float, Field(gt=0.0, le=1_000.0)]


class Published(Frozen):
    """Figures of one setting over another, the baseline; those that were not published are None."""

    source: Name
    """Who published them, and where."""
    machine: Name | None = None
    """What they were measured on."""
    throughput_ratio: Ratio | None = None
    """Samples/s of training."""
    training_time_ratio: Ratio | None = None
    """Seconds of training."""
    cost_ratio: Ratio | None = None
    """Dollars."""
    batch_size_ratio: Ratio | None = None
    """Batch size of each device."""
    loss_ratio: Ratio | None = None
    """Loss at the end."""
    break_even_minutes: Annotated[float, Field(gt=0.0)] | None = None
    """Minutes of training that earn the compile time back."""
    spot_savings_percent: Annotated[float, Field(gt=0.0, lt=100.0)] | None = None
    """What spare capacity saves at most, percent of the bill."""

    @model_validator(mode="after")
    def _tells_something(self) -> Published:
        if not self.figures:
            raise ValueError("no figure is given beside source and machine")
        return self

    @property
    def figures(self) -> dict[str, float]:
        """The figures that were published, by field."""
        told = self.model_dump(exclude={"source", "machine"}, exclude_none=True)
        return {name: float(value) for name, value in told.items()}
