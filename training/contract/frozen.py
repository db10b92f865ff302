"""Base class and text type of everything that a user writes in an experiment file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=4_096)]


class Frozen(BaseModel):
    """Base of all models in an experiment file: no unknown keys, no implicit conversion, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
