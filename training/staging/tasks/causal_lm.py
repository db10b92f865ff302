"""Causal language modelling: texts packed into blocks of equal length, or one row per text.

Packing joins the tokens of all texts without separators and cuts them into blocks, like Hugging Face's run_clm.py.
Tokens at the end that do not fill a block are dropped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from training.contract.errors import InputError
from training.staging.rows.prepare import check_rows
from training.staging.rows.texts import Texts, read_texts
from training.staging.sources.request import Columns, StagingRequest
from training.staging.sources.sources import NO_READERS, Readers, Tables
from training.staging.tokens.batches import batches
from training.staging.tokens.channel_files import ChannelContent, Content

if TYPE_CHECKING:
    import numpy as np

OPTIONS: tuple[str, ...] = ("packing",)
READERS: Readers = NO_READERS
HEAD = "AutoModelForCausalLM"

TEXTS_PER_BATCH = 1_000
SHORTEST_ROW_TOKENS = 2
"""Length of the shortest row that has a token to predict."""


def required_columns(columns: Columns) -> list[str]:
    """Return the text column. Labels are not read."""
    return [columns.text]


def content(tables: Tables, request: StagingRequest, load_tokenizer: Callable[[], Any]) -> Content:
    """Read, split and tokenise the texts, then pack or truncate them."""
    train, validation = read_texts(tables, request.data)
    tokenizer = load_tokenizer()
    train_channel = _channel(tokenizer, train, "training", request)
    check_rows(len(train_channel.lengths), request, train.source)
    return Content(train=train_channel, validation=_channel(tokenizer, validation, "validation", request))


def _channel(tokenizer: Any, texts: Texts, purpose: str, request: StagingRequest) -> ChannelContent:
    import numpy as np
    import pyarrow as pa

    max_length = None if request.packing else request.max_length
    tokens, lengths = tokenise(tokenizer, texts.texts, max_length)
    if request.packing:
        tokens, lengths = blocks(tokens, request.max_length)
        if not len(lengths):
            raise InputError(
                f"the {purpose} texts of {texts.source} do not fill one block of max_length {request.max_length} "
                "tokens; reduce max_length, or set packing to false"
            )
    else:
        tokens, lengths = rows(tokens, lengths)
        if not len(lengths):
            raise InputError(
                f"the {purpose} texts of {texts.source} have only one token each, so none can be predicted"
            )
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    input_ids = pa.ListArray.from_arrays(offsets, pa.array(tokens, pa.int32()))
    return ChannelContent(columns={"input_ids": input_ids}, lengths=lengths.tolist())


def tokenise(tokenizer: Any, texts: list[str], max_length: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return (tokens of all texts, concatenated; number of tokens per text). Texts are truncated to `max_length`."""
    import numpy as np

    options: dict[str, Any] = {"return_attention_mask": False, "return_token_type_ids": False}
    if max_length is not None:
        options |= {"truncation": True, "max_length": max_length}
    tokens, lengths = array("i"), []
    for rows in batches([len(text) for text in texts], TEXTS_PER_BATCH):
        batch = tokenizer(texts[rows], **options)["input_ids"]
        for ids in batch:
            tokens.extend(ids)
        lengths += [len(ids) for ids in batch]
    return np.frombuffer(tokens, dtype=np.int32), np.array(lengths)


def blocks(tokens: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (tokens of all complete blocks, concatenated; length of each block), without the incomplete last block."""
    import numpy as np

    count = len(tokens) // length
    return tokens[: count * length], np.full(count, length)


def rows(tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (tokens, lengths) without the rows that have no token to predict."""
    import numpy as np

    long_enough = lengths >= SHORTEST_ROW_TOKENS
    return tokens[np.repeat(long_enough, lengths)], lengths[long_enough]
