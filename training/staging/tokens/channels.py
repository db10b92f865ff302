"""Tokenise the rows of a channel in batches, write its files, and collect its description."""

from __future__ import annotations

import json
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from training.contract.errors import InputError
from training.job.data import TEXT_LENGTHS
from training.job.processes.reporting import BadData
from training.job.tasks import SOURCE_ROWS, TASKS, Encoded, Row
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Table
from training.staging.tokens.rows import BadRows, Channel, Selection, hash_of, task_rows
from training.staging.tokens.staged import DATA, SAMPLES, ChannelDescription, Sample, length_statistics, preview
from training.staging.tokens.tokenizing import batches

if TYPE_CHECKING:
    import numpy as np

GROUP_VALUES = 2_000_000
"""Tokens of a row group: 8 MB. Reader and writer keep one row group in memory."""


class RowGroupFile:
    """A Parquet file that is written one row group at a time.

    It has no library metadata, because the old library in a container cannot read the metadata of a new one.
    """

    def __init__(self, path: Path, group_values: int = GROUP_VALUES) -> None:
        self._path, self._group_values = path, group_values
        self._writer: Any = None
        self._parts: list[Any] = []
        self._waiting = 0

    def append(self, columns: Mapping[str, Any]) -> None:
        """Append rows. `columns` maps names to pyarrow arrays of equal length."""
        import pyarrow as pa

        self._parts.append(pa.table(dict(columns)))
        self._waiting += sum(len(getattr(column, "values", column)) for column in columns.values())
        if self._waiting >= self._group_values:
            self._write_group()

    def close(self) -> None:
        if self._parts:
            self._write_group()
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._parts)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, store_schema=False)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._parts, self._waiting = [], 0


def token_counts(columns: Mapping[str, Any]) -> np.ndarray:
    """Return the tokens of each row, or of the longest text of a row with several."""
    import numpy as np

    if TEXT_LENGTHS in columns:
        rows = len(columns[TEXT_LENGTHS])
        return np.asarray(columns[TEXT_LENGTHS].values.to_numpy().reshape(rows, -1).max(axis=1))
    return np.diff(columns["input_ids"].offsets.to_numpy())


class ChannelSummary:
    """Counts of one channel. It keeps eight bytes of each row."""

    def __init__(self, *, max_length: int, classes: int = 0) -> None:
        import numpy as np

        self.max_length = max_length
        self._lengths = np.zeros(max_length + 1, np.int64)
        self._tokens = 0
        self._classes = np.zeros(classes, np.int64)
        self.cut_rows = 0
        """Rows of the data that `max_length` cut."""
        self.remarks: Counter[str] = Counter()
        self.left_out_rows = 0
        """Rows of the data of which `max_length` leaves nothing to learn or to score."""
        self._hashes = array("Q")
        self._samples: dict[int, Sample] = {}
        """By the hash of the row."""

    def add_source_row(self, texts: Sequence[str], *, number: int = 0, label: str | None = None) -> None:
        """Count a row of the data, with its one or two texts."""
        value = hash_of(*texts)
        self._hashes.append(value)
        # The rows with the smallest hashes are a random sample, the same one for the same data.
        if value in self._samples or (len(self._samples) == SAMPLES and value > max(self._samples)):
            return
        self._samples[value] = Sample(number=number, text=preview(*texts), label=label)
        if len(self._samples) > SAMPLES:
            del self._samples[max(self._samples)]

    def add_rows(self, encoded: Encoded, classes: Sequence[int]) -> None:
        """Count rows of the channel, and their class numbers. The length of a row with several texts is the longest."""
        import numpy as np

        self._tokens += len(encoded.columns["input_ids"].values)
        self._lengths += np.bincount(token_counts(encoded.columns), minlength=len(self._lengths))
        self._classes += np.bincount(np.array(classes, int), minlength=len(self._classes))
        self.cut_rows += encoded.cut_rows
        self.left_out_rows += encoded.left_out_rows
        self.remarks.update(encoded.remarks)

    @property
    def rows(self) -> int:
        return int(self._lengths.sum())

    @property
    def class_counts(self) -> tuple[int, ...]:
        return tuple(self._classes.tolist())

    @property
    def length_counts(self) -> dict[int, int]:
        """Number of rows by length in tokens, ascending."""
        return {length: count for length, count in enumerate(self._lengths.tolist()) if count}

    def rows_in(self, other: ChannelSummary) -> int:
        """Return the number of rows of the data whose texts are also a row of the other channel."""
        import numpy as np

        ours, theirs = (np.frombuffer(each._hashes, np.uint64) for each in (self, other))
        return int(np.isin(ours, theirs).sum())

    def samples(self) -> tuple[Sample, ...]:
        """Return the sample rows in the order of the data."""
        return tuple(self._samples[key] for key in sorted(self._samples, key=lambda key: self._samples[key].number))

    def description(self) -> ChannelDescription:
        counts = self.length_counts
        return ChannelDescription(
            rows=self.rows,
            source_rows=len(self._hashes),
            lengths=length_statistics(counts, self.max_length),
            tokens=self._tokens,
            cut_rows=self.cut_rows,
            left_out_rows=self.left_out_rows,
            class_counts=self.class_counts,
            remarks=dict(self.remarks),
        )


MAX_SOURCE_ROWS = 1_000
"""Number of rows whose predictions a job reports."""
MAX_LEFT_OUT = 0.1
"""Largest share of rows of which `max_length` may leave nothing."""
R = TypeVar("R")
E = TypeVar("E")
_Encode = Callable[[Sequence[Row], Sequence[Sequence[int]]], Encoded]


def _encode(request: StagingRequest, tokenizer: Any, *, for_scoring: bool) -> _Encode:
    """Return the task's encoder. It raises InputError for a row that the model cannot read."""
    task = TASKS[request.task]

    def checked(make: Callable[[], E]) -> E:
        try:
            return make()
        except BadData as error:
            raise InputError(str(error)) from error

    encoder = checked(lambda: task.encoder(tokenizer, _options(request), for_scoring))
    return lambda rows, classes: checked(lambda: encoder(rows, classes))


def _options(request: StagingRequest) -> dict[str, Any]:
    return {"max_length": request.max_length, **request.options}


def write_channel(
    selection: Selection,
    channel: Channel,
    request: StagingRequest,
    tokenizer: Any,
    folder: Path,
    summary: ChannelSummary,
    progress: Progress,
) -> Mapping[str, Any]:
    """Tokenise the rows of a channel, write and summarise them. Return the task's own metadata. Raises InputError."""
    task, classes = TASKS[request.task], selection.classes
    part = selection.train if channel == "train" else selection.validation
    is_validation = channel == "validation"
    encode = _encode(request, tokenizer, for_scoring=is_validation)

    def numbered(batch: list[Row]) -> tuple[list[list[int]], Encoded]:
        numbers = [[classes.numbers[label] for label in row.labels] for row in batch]
        return numbers, encode(batch, numbers)

    folder.mkdir(parents=True)
    tables: dict[str, RowGroupFile] = {}
    source_rows: list[int] = []
    metadata: Mapping[str, Any] = {}
    rows = progress.count(f"tokenising {channel} {task.row}s", part.read(), part.rows)
    for batch, (numbers, encoded) in encoded_batches(
        batches(rows, task.batch_characters, task.rows_per_batch), numbered
    ):
        summary.add_rows(encoded, [each for row in numbers for each in row])
        metadata = encoded.metadata
        for row, own in zip(batch, numbers, strict=True):
            label = ", ".join(dict.fromkeys(classes.names[number] for number in own)) if own else None
            summary.add_source_row(row.texts, number=row.number, label=label)
        source_rows += [row.number for row in batch[: MAX_SOURCE_ROWS - len(source_rows)]]
        own_data = {DATA: encoded.columns} if len(encoded.columns["input_ids"]) else {}
        for name, columns in {**own_data, **(encoded.tables or {})}.items():
            tables.setdefault(name, RowGroupFile(folder / name)).append(columns)
    for table in tables.values():
        table.close()
    if not summary.rows:
        purpose = "validation" if is_validation else "training"
        name = (selection.tables.validation or selection.tables.train).name if is_validation else selection.source
        raise InputError(f"the {purpose} {task.row}s of {name} {task.no_rows(_options(request), is_validation)}")
    _check_left_out(summary.left_out_rows, part.rows, request)
    if task.reports_first_rows:
        (folder / SOURCE_ROWS).write_text(json.dumps(source_rows), "utf-8")
    names = task.scoring_options if is_validation else task.training_options
    return {**{name: request.options[name] for name in names}, **metadata}


def _check_left_out(left_out: int, rows: int, request: StagingRequest) -> None:
    """Raise InputError if `max_length` leaves too many rows of the data nothing to learn or to score."""
    if left_out > MAX_LEFT_OUT * rows:
        task = TASKS[request.task]
        raise InputError(
            f"{left_out:,} of {rows:,} {task.row}s ({left_out / rows:.0%}) are {task.left_out}; max_length is "
            f"{request.max_length}, so increase it, or shorten the {task.row}s"
        )


def row_lengths(table: Table, request: StagingRequest, tokenizer: Any, *, for_scoring: bool = False) -> list[int]:
    """Return the length in tokens of each row of a channel that the rows of a table make."""
    task = TASKS[request.task]
    encode = _encode(request, tokenizer, for_scoring=for_scoring)
    lengths: list[int] = []
    bad, left_out, count = BadRows(table, skips=request.data.skip_bad_rows), 0, 0
    rows = task_rows(task, table, request.data, bad)
    for batch in batches(rows, task.batch_characters, task.rows_per_batch):
        encoded = encode(batch, [[0] * len(row.labels) for row in batch])
        lengths += token_counts(encoded.columns).tolist()
        left_out, count = left_out + encoded.left_out_rows, count + len(batch)
    bad.check()
    _check_left_out(left_out, count, request)
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
