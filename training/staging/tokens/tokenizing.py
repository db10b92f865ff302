"""Load a tokenizer, and tokenise rows in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from training.contract.errors import InputError, first_line
from training.staging.models.model_files import ModelSource, check_max_length

if TYPE_CHECKING:
    from training.staging.rows.labels import Example
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

# A tokenizer without a limit reports at least this number.
NO_LIMIT_TOKENS = 1_000_000
MAX_CHARACTERS = 500_000
"""Text of a batch. A tokenizer needs about 160 bytes of memory for each character of a batch."""
R = TypeVar("R")
E = TypeVar("E")


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Token ids of a batch of rows."""

    input_ids: list[list[int]]
    """Token ids, special tokens included, without padding."""
    token_type_ids: list[list[int]] | None
    """0 for the first text of a pair, 1 for the second; None if rows have one text or the model uses no types."""
    cut_rows: int
    """Rows that were truncated."""


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


def encode(tokenizer: Any, examples: Sequence[Example], max_length: int) -> Encoded:
    """Tokenise rows, truncated to `max_length` tokens. The longer text of a pair is truncated first."""
    texts = [each.text for each in examples]
    pairs = None if examples[0].pair is None else [str(each.pair) for each in examples]
    rows = encodings(tokenizer, texts, pairs, max_length)
    has_types = pairs is not None and "token_type_ids" in tokenizer.model_input_names
    return Encoded(
        input_ids=[row.ids for row in rows],
        token_type_ids=[row.type_ids for row in rows] if has_types else None,
        cut_rows=cut_rows(rows),
    )


def encodings(tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int | None) -> list[Any]:
    """Return the encodings of texts or pairs of texts, truncated to `max_length` tokens; None does not truncate.

    They equal the result of `tokenizer(texts, pairs, ...)`, but have no positions of tokens in the text, which would
    take a third of the time.
    """
    from transformers import PreTrainedTokenizerFast

    names = ("__call__", "_encode_plus", "_switch_to_input_mode")
    own, standard = type(tokenizer), PreTrainedTokenizerFast
    if any(getattr(own, name, None) is not getattr(standard, name, None) for name in names):
        # The tokenizer's class changes texts or encodings in Python.
        batch = tokenizer(texts, pairs, padding=False, truncation=max_length is not None, max_length=max_length)
        return list(batch.encodings)
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    if max_length is not None:
        backend.enable_truncation(max_length, strategy="longest_first", direction=tokenizer.truncation_side)
    backend.encode_special_tokens = tokenizer.split_special_tokens
    rows: list[Any] = backend.encode_batch_fast(texts if pairs is None else list(zip(texts, pairs, strict=True)))
    return rows


def cut_rows(rows: Sequence[Any]) -> int:
    """Return the number of rows of which the tokenizer cut off tokens."""
    return sum(len(row.overflowing) > 0 for row in rows)


def channel_metadata(tokenizer: Any, *, task: str, label_names: Sequence[str], max_length: int) -> dict[str, Any]:
    """Return the channel metadata that a job needs in addition to the rows."""
    return {
        "task": task,
        "label_names": list(label_names),
        "max_length": max_length,
        "pad_token_id": pad_token_id(tokenizer),
        "pad_token_type_id": tokenizer.pad_token_type_id,
        "padding_side": tokenizer.padding_side,
    }


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


def encoded_batches(read: Iterable[list[R]], encode: Callable[[list[R]], E]) -> Iterator[tuple[list[R], E]]:
    """Yield each batch with its encoding. A thread encodes a batch while the next one is read.

    Up to three batches are in memory: one read, one encoded, one used. Tokenizers compute without Python's lock.
    """
    with ThreadPoolExecutor(1) as thread:
        under_way: deque[tuple[list[R], Future[E]]] = deque()
        for batch in read:
            under_way.append((batch, thread.submit(encode, batch)))
            if len(under_way) == 2:
                first, encoding = under_way.popleft()
                yield first, encoding.result()
        for batch, encoding in under_way:
            yield batch, encoding.result()
