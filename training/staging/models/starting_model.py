"""What a job starts from: a model with its weights, or one that is built from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from training.staging.models.from_scratch import Scratch
from training.staging.models.model_files import (
    ModelSource,
    check_max_length,
    check_weights,
    locate,
    locate_tokenizer,
)
from training.staging.sources.request import StagingRequest


@dataclass(frozen=True, kw_only=True)
class Start:
    """A model whose files are found, or what is needed to build one."""

    tokenizer: ModelSource
    """Whose tokenizer is used: the model's, unless it is built for another one's."""
    scratch: Scratch | None
    """What to build; None starts from the weights of the model."""


def find_start(request: StagingRequest, home: Path) -> Start:
    """Find the model and the tokenizer; refuse a model that lacks its weights or takes shorter sequences."""
    base = locate(request.model, request.model_revision) if request.model is not None else None
    if base is not None and request.weights == "pretrained":
        check_weights(base)
        check_max_length(base, request.max_length)
        return Start(tokenizer=base, scratch=None)
    tokenizer = base if request.tokenizer is None else locate_tokenizer(request.tokenizer, home / "tokenizers")
    assert tokenizer is not None, "a model_type comes with a tokenizer: the experiment checked it"
    scratch = Scratch(model_type=request.model_type, base=base, overrides=request.model_overrides, tokenizer=tokenizer)
    return Start(tokenizer=tokenizer, scratch=scratch)
