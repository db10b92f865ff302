"""The model that a job starts from: one with weights, or one that is built from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from training.staging.models.from_scratch import ModelFromScratch
from training.staging.models.model_files import (
    ModelSource,
    check_max_length,
    check_weights,
    locate,
    locate_tokenizer,
)
from training.staging.sources.request import StagingRequest


@dataclass(frozen=True, kw_only=True)
class StartingModel:
    """The tokenizer, and the model to build if the job does not start from pretrained weights."""

    tokenizer: ModelSource
    """Source of the tokenizer: the model itself, or the tokenizer that was chosen for a model from scratch."""
    scratch: ModelFromScratch | None
    """Model to build from scratch; None starts from the model's pretrained weights."""


def find_starting_model(request: StagingRequest, home: Path) -> StartingModel:
    """Find the model and the tokenizer. Raises InputError if weights are missing or `max_length` is too long."""
    base = locate(request.model, request.model_revision) if request.model is not None else None
    if base is not None and request.weights == "pretrained":
        check_weights(base)
        check_max_length(base, request.max_length)
        return StartingModel(tokenizer=base, scratch=None)
    tokenizer = base if request.tokenizer is None else locate_tokenizer(request.tokenizer, home / "tokenizers")
    assert tokenizer is not None, "the experiment requires a tokenizer with a model_type"
    scratch = ModelFromScratch(
        model_type=request.model_type, base=base, overrides=request.model_overrides, tokenizer=tokenizer
    )
    return StartingModel(tokenizer=tokenizer, scratch=scratch)
