"""Fields for the published figures of a recipe. Reports show them beside the measured ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from training.staging.sources.request import Frozen, Name

Ratio = Annotated[float, Field(gt=0.0, le=1_000.0)]


class Published(Frozen):
    """Published ratios of one setting to the baseline."""

    source: Name
    """Publisher and publication."""
    machine: Name | None = None
    """Instance type or GPU that the figures were measured on."""
    throughput_ratio: Ratio | None = None
    """Ratio of training samples per second."""
    training_time_ratio: Ratio | None = None
    """Ratio of training seconds."""
    cost_ratio: Ratio | None = None
    """Ratio of dollars."""
    batch_size_ratio: Ratio | None = None
    """Ratio of the batch sizes per device."""
    loss_ratio: Ratio | None = None
    """Ratio of the final losses."""
    break_even_minutes: Annotated[float, Field(gt=0.0)] | None = None
    """Minutes after which the compiled arm has made up for its compile time."""
    spot_savings_percent: Annotated[float, Field(gt=0.0, lt=100.0)] | None = None
    """Largest saving of spot capacity, in percent of the cost."""

    @model_validator(mode="after")
    def _has_a_figure(self) -> Published:
        if not self.figures:
            raise ValueError("at least one published number is needed in addition to source and machine")
        return self

    @property
    def figures(self) -> dict[str, float]:
        """Published figures by field name."""
        figures = self.model_dump(exclude={"source", "machine"}, exclude_none=True)
        return {name: float(value) for name, value in figures.items()}
