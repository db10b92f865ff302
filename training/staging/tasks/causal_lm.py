"""Causal language modelling: texts packed into blocks of equal length, or one row per text.

Packing joins the tokens of all texts without separators and cuts them into blocks, like Hugging Face's run_clm.py.
Tokens at the end that do not fill a block are dropped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from training.contract.errors import InputError
from training.staging.rows.selection import Channel
from training.staging.rows.texts import Text, read_texts, select_texts
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Table, Tables
from training.staging.tokens.channels import ChannelSummary, ChannelWriter, Content
from training.staging.tokens.tokenizing import batches, cut_rows, encoded_batches, encodings

if TYPE_CHECKING:
    import numpy as np


TEXTS_PER_BATCH = 1_000
SHORTEST_ROW_TOKENS = 2
"""Length of the shortest row that has a token to predict."""


def content(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Content:
    """Check and split the texts."""
    texts = select_texts(open_tables, request.data, progress)

    def write(channel: Channel, tokenizer: Any, writer: ChannelWriter, summary: ChannelSummary) -> Mapping[str, Any]:
        part = texts.part(channel)
        rows = progress.count(f"tokenising {channel} texts", part.read(), part.rows)
        if request.packing:
            _write_blocks(tokenised(tokenizer, rows, None, summary), request.max_length, writer, summary)
        else:
            _write_rows(tokenised(tokenizer, rows, request.max_length, summary), writer, summary)
        if not writer.rows:
            purpose = "training" if channel == "train" else "validation"
            name = (texts.tables.validation or texts.tables.train).name if channel == "validation" else texts.source
            raise _no_rows(f"the {purpose} texts of {name}", request)
        return {}

    return Content(source=texts.source, write=write)


def row_lengths(table: Table, request: StagingRequest, tokenizer: Any) -> list[int]:
    """Return the length in tokens of each row of the channel that the texts of a table make."""
    import numpy as np

    summary = ChannelSummary(max_length=request.max_length)
    limit = None if request.packing else request.max_length
    parts = list(tokenised(tokenizer, read_texts(table, request.data.columns.text), limit, summary))
    if not parts:
        return []
    tokens, lengths = (np.concatenate(each) for each in zip(*parts, strict=True))
    _, made = blocks(tokens, request.max_length) if request.packing else rows(tokens, lengths)
    return [int(length) for length in made]


def _no_rows(texts: str, request: StagingRequest) -> InputError:
    if not request.packing:
        return InputError(f"{texts} have only one token each, so none can be predicted")
    return InputError(
        f"{texts} do not fill one block of max_length {request.max_length} tokens; reduce max_length, or set packing "
        "to false"
    )


def tokenised(
    tokenizer: Any, texts: Iterable[Text], max_length: int | None, summary: ChannelSummary
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (tokens of a batch of texts, concatenated; number of tokens per text). Truncate texts to `max_length`."""
    import numpy as np

    read = batches(texts, lambda each: len(each.text), TEXTS_PER_BATCH)
    for rows, encoded in encoded_batches(
        read, lambda batch: encodings(tokenizer, [each.text for each in batch], None, max_length)
    ):
        tokens = array("i")
        ids_of_rows = [row.ids for row in encoded]
        for ids in ids_of_rows:
            tokens.extend(ids)
        for each in rows:
            summary.add_source_row([each.text], number=each.number)
        summary.cut_rows += cut_rows(encoded) if max_length is not None else 0
        yield np.array(tokens, np.int32), np.array([len(ids) for ids in ids_of_rows])


def _write_blocks(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], length: int, writer: ChannelWriter, summary: ChannelSummary
) -> None:
    import numpy as np

    rest = np.zeros(0, np.int32)
    for tokens, _ in parts:
        joined = np.concatenate([rest, tokens])
        block_tokens, lengths = blocks(joined, length)
        rest = joined[len(block_tokens) :]
        _append(block_tokens, lengths, writer, summary)


def _write_rows(parts: Iterable[tuple[np.ndarray, np.ndarray]], writer: ChannelWriter, summary: ChannelSummary) -> None:
    for tokens, lengths in parts:
        _append(*rows(tokens, lengths), writer, summary)


def _append(tokens: np.ndarray, lengths: np.ndarray, writer: ChannelWriter, summary: ChannelSummary) -> None:
    import numpy as np
    import pyarrow as pa

    if len(lengths):
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        writer.append({"input_ids": pa.ListArray.from_arrays(offsets, pa.array(tokens, pa.int32()))})
        summary.add_rows(lengths)


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
