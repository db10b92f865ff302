"""Classification: one row per labelled text or pair of texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from training.staging.rows.labels import Classes, Example, check_classes, label_text, prepare, read_examples
from training.staging.rows.selection import Channel
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Table, Tables
from training.staging.tokens.channels import ChannelSummary, ChannelWriter, Content, token_columns, token_counts
from training.staging.tokens.tokenizing import Encoded, batches, encode, encoded_batches

SOURCE_ROWS = "source_rows.json"
"""File of a channel: a list with the line or row numbers (from 1) of the channel's first rows in the data."""
MAX_SOURCE_ROWS = 1_000
"""Number of rows whose predictions a job reports."""
ROWS_PER_BATCH = 1_000


def content(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Content:
    """Check, split and number the rows."""
    classes, selection = prepare(open_tables, request, progress)

    def write(channel: Channel, tokenizer: Any, writer: ChannelWriter, summary: ChannelSummary) -> Mapping[str, Any]:
        part = selection.part(channel)
        rows = progress.count(f"tokenising {channel} rows", part.read(), part.rows)
        _write(rows, classes, partial(encode, tokenizer, max_length=request.max_length), writer, summary)
        if channel == "train":  # A limit may leave out all rows of a class that was read.
            present = {number for number, count in enumerate(summary.class_counts) if count}
            check_classes(selection.source, present, classes)
        return {}

    return Content(source=selection.source, write=write, label_names=classes.names)


def row_lengths(table: Table, request: StagingRequest, tokenizer: Any) -> list[int]:
    """Return the length in tokens of each row of a table."""
    skip = frozenset(map(label_text, request.data.skip_labels or ()))
    examples = list(read_examples(table, request.data.columns, skip))
    return [len(ids) for ids in encode(tokenizer, examples, request.max_length).input_ids] if examples else []


def _write(
    rows: Iterator[Example],
    classes: Classes,
    encode: Callable[[list[Example]], Encoded],
    writer: ChannelWriter,
    summary: ChannelSummary,
) -> None:
    import numpy as np
    import pyarrow as pa

    source_rows: list[int] = []
    read = batches(rows, lambda row: len(row.text) + len(row.pair or ""), ROWS_PER_BATCH)
    for batch, encoded in encoded_batches(read, encode):
        numbers = np.array([classes.numbers[row.label] for row in batch])
        columns = {**token_columns(encoded.input_ids, encoded.token_type_ids), "label": pa.array(numbers, pa.int64())}
        writer.append(columns)
        summary.add_rows(token_counts(columns), numbers)
        summary.cut_rows += encoded.cut_rows
        for row, number in zip(batch, numbers.tolist(), strict=True):
            texts = (row.text,) if row.pair is None else (row.text, row.pair)
            summary.add_source_row(texts, number=row.number, label=classes.names[number])
        source_rows += [row.number for row in batch[: MAX_SOURCE_ROWS - len(source_rows)]]
    (writer.folder / SOURCE_ROWS).write_text(json.dumps(source_rows), "utf-8")
