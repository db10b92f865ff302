"""Load a tokenizer, and divide rows into batches. Logged models contain this file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from training.contract.errors import InputError, first_line
from training.staging.models.model_files import ModelSource, check_max_length

# A tokenizer without a limit reports at least this number.
NO_LIMIT_TOKENS = 1_000_000
MAX_CHARACTERS = 500_000
"""Text of a batch. A tokenizer needs about 160 bytes of memory for each character of a batch."""
R = TypeVar("R")


def load_tokenizer(source: ModelSource, max_length: int | None) -> Any:
    """Return a fast tokenizer. Every error becomes an `InputError`.

    Also raises InputError if `max_length` exceeds the limit of a Hub tokenizer; None skips this check.
    """
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.location, revision=source.revision or "main", use_fast=True)
    # Missing files, no network, an unknown class and damaged JSON raise different classes, some a bare `Exception`.
    except Exception as error:
        raise InputError(f"the tokenizer of model {source.name!r} cannot be loaded: {first_line(error)}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(f"model {source.name!r} has only a slow tokenizer; a fast one (tokenizer.json) is required")
    if pad_token_id(tokenizer) is None:
        raise InputError(f"the tokenizer of model {source.name!r} has neither a padding token nor an end token")
    limit = tokenizer.model_max_length
    if max_length is not None and source.folder is None and limit < NO_LIMIT_TOKENS:
        check_max_length(source.name, limit, max_length)
    return tokenizer


def pad_token_id(tokenizer: Any) -> int | None:
    """Return the padding token, or the end token if the model was trained without padding (GPT-2)."""
    padding: int | None = tokenizer.pad_token_id
    end: int | None = tokenizer.eos_token_id
    return end if padding is None else padding


def batches(
    rows: Iterable[R], characters: Callable[[R], int], max_rows: int, max_characters: int = MAX_CHARACTERS
) -> Iterator[list[R]]:
    """Yield consecutive rows: at most `max_rows`, with at most `max_characters` or one row."""
    batch: list[R] = []
    total = 0
    for row in rows:
        size = characters(row)
        if batch and (len(batch) == max_rows or total + size > max_characters):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += size
    if batch:
        yield batch
