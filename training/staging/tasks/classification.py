"""Classification: one row per labelled text or pair of texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from training.staging.rows.examples import Examples
from training.staging.rows.prepare import prepare
from training.staging.sources.request import Columns, StagingRequest
from training.staging.sources.sources import NO_READERS, Tables
from training.staging.tokens.channel_files import ChannelContent, Content, token_columns
from training.staging.tokens.tokenizing import encode

OPTIONS: tuple[str, ...] = ()
READERS = NO_READERS
HEAD = "AutoModelForSequenceClassification"
SOURCE_ROWS = "source_rows.json"
"""File of a channel: a list with the line or row numbers (from 1) of the channel's first rows in the data."""
MAX_SOURCE_ROWS = 1_000
"""Number of rows whose predictions a job reports."""


def required_columns(columns: Columns) -> list[str]:
    """Return the columns with the text, the label and, for pairs, the second text."""
    return [columns.text, columns.label, *([columns.text_pair] if columns.text_pair else [])]


def content(tables: Tables, request: StagingRequest, load_tokenizer: Callable[[], Any]) -> Content:
    """Check, split, number and tokenise the rows. The tokenizer is loaded only after the data has been checked."""
    prepared = prepare(tables, request)
    tokenizer = load_tokenizer()

    def channel(examples: Examples, classes: list[int]) -> ChannelContent:
        import pyarrow as pa

        encoded = encode(tokenizer, examples, request.max_length)
        columns = {**token_columns(encoded.input_ids, encoded.token_type_ids), "label": pa.array(classes, pa.int64())}
        source_rows = json.dumps(examples.numbers[:MAX_SOURCE_ROWS]).encode()
        return ChannelContent(
            columns=columns, lengths=[len(ids) for ids in encoded.input_ids], files={SOURCE_ROWS: source_rows}
        )

    def class_counts(classes: list[int]) -> tuple[int, ...]:
        counts = Counter(classes)
        return tuple(counts[number] for number in range(len(prepared.label_names)))

    return Content(
        train=channel(prepared.train, prepared.train_classes),
        validation=channel(prepared.validation, prepared.validation_classes),
        label_names=prepared.label_names,
        train_class_counts=class_counts(prepared.train_classes),
        validation_class_counts=class_counts(prepared.validation_classes),
    )
