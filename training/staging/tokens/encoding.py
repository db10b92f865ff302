"""Tokenise the rows of a channel in batches, by their task, and write and summarise them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from training.contract.errors import InputError
from training.job.processes.reporting import BadData
from training.job.tasks import SOURCE_ROWS, TASKS, Encoded, Row
from training.staging.rows.selection import Channel, Selection, task_rows
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Table
from training.staging.tokens.channels import ChannelSummary, ChannelWriter, RowGroupFile, token_counts
from training.staging.tokens.tokenizing import batches

MAX_SOURCE_ROWS = 1_000
"""Number of rows whose predictions a job reports."""
R = TypeVar("R")
E = TypeVar("E")
_Encode = Callable[[Sequence[Row], Sequence[Sequence[int]]], Encoded]


def _encode(request: StagingRequest, tokenizer: Any, *, for_scoring: bool) -> _Encode:
    """Return the task's encoder. It raises InputError for a row that the model cannot read."""
    task = TASKS[request.task]
    encoder = task.encoder(tokenizer, _options(request), for_scoring)

    def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
        try:
            return encoder(rows, classes)
        except BadData as error:
            raise InputError(str(error)) from error

    return encode


def _options(request: StagingRequest) -> dict[str, Any]:
    return {"max_length": request.max_length, **request.options}


def write_channel(
    selection: Selection,
    channel: Channel,
    request: StagingRequest,
    tokenizer: Any,
    writer: ChannelWriter,
    summary: ChannelSummary,
    progress: Progress,
) -> Mapping[str, Any]:
    """Tokenise the rows of a channel, write and summarise them. Return the task's own metadata. Raises InputError."""
    import numpy as np

    task, part, classes = TASKS[request.task], selection.part(channel), selection.classes
    is_validation = channel == "validation"
    encode = _encode(request, tokenizer, for_scoring=is_validation)

    def numbered(batch: list[Row]) -> tuple[list[list[int]], Encoded]:
        numbers = [[classes.numbers[label] for label in row.labels] for row in batch]
        return numbers, encode(batch, numbers)

    tables: dict[str, RowGroupFile] = {}
    source_rows: list[int] = []
    rows = progress.count(f"tokenising {channel} {task.row}s", part.read(), part.rows)
    for batch, (numbers, encoded) in encoded_batches(
        batches(rows, task.batch_characters, task.rows_per_batch), numbered
    ):
        if len(encoded.columns["input_ids"]):
            writer.append(encoded.columns)
        summary.add_rows(token_counts(encoded.columns), np.array([each for row in numbers for each in row], int))
        summary.cut_rows += encoded.cut_rows
        for row, own in zip(batch, numbers, strict=True):
            label = ", ".join(dict.fromkeys(classes.names[number] for number in own)) if own else None
            summary.add_source_row(row.texts, number=row.number, label=label)
        source_rows += [row.number for row in batch[: MAX_SOURCE_ROWS - len(source_rows)]]
        for name, columns in (encoded.tables or {}).items():
            tables.setdefault(name, RowGroupFile(writer.folder / name)).append(columns)
    for table in tables.values():
        table.close()
    if not writer.rows:
        purpose = "validation" if is_validation else "training"
        name = (selection.tables.validation or selection.tables.train).name if is_validation else selection.source
        raise InputError(f"the {purpose} {task.row}s of {name} {task.no_rows(_options(request), is_validation)}")
    if task.reports_first_rows:
        (writer.folder / SOURCE_ROWS).write_text(json.dumps(source_rows), "utf-8")
    return {name: request.options[name] for name in task.scoring_options} if is_validation else {}


def row_lengths(table: Table, request: StagingRequest, tokenizer: Any, *, for_scoring: bool = False) -> list[int]:
    """Return the length in tokens of each row of a channel that the rows of a table make."""
    task = TASKS[request.task]
    encode = _encode(request, tokenizer, for_scoring=for_scoring)
    lengths: list[int] = []
    rows = task_rows(task, table, request.data)
    for batch in batches(rows, task.batch_characters, task.rows_per_batch):
        encoded = encode(batch, [[0] * len(row.labels) for row in batch])
        lengths += token_counts(encoded.columns).tolist()
    return lengths


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
