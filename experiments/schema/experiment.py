"""Experiment: all fields, checked by the rules between them."""

from __future__ import annotations

from pydantic import model_validator

from experiments.schema.fields import ExperimentFields
from experiments.schema.rules import check_fields


class Experiment(ExperimentFields):
    """Valid experiment. Raises `ValidationError` for fields that contradict each other."""

    @model_validator(mode="after")
    def _check_rules(self) -> Experiment:
        check_fields(self)
        return self
