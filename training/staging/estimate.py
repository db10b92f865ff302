"""Estimate the staged data of large sources from their first rows, without staging them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.job.tasks import TASKS
from training.staging.formats.files import TextFormat, is_packed, read_start
from training.staging.formats.readers import BINARY, reader_name
from training.staging.rows.labels import check_rows
from training.staging.rows.selection import first_rows, validation_count
from training.staging.sources.data_files import LINES, DataFiles, Start, StoredFiles
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import (
    Source,
    Table,
    Tables,
    file_table,
    find_files,
    is_in_s3,
    is_offline,
    streamed_tables,
    tables_of,
)
from training.staging.stage import find_inputs, stage
from training.staging.tokens.encoding import row_lengths
from training.staging.tokens.staged import Staged, read_manifest
from training.staging.tokens.tokenizing import load_tokenizer

SMALL_BYTES = 4 * 2**20
"""Size of data that is staged faster than a sample of it is worth."""
PACKED_FACTOR = 4
"""Text in a compressed or Parquet file, as a multiple of the file's size."""
SAMPLE_ROWS = 1_000
"""Rows that are read and tokenised. The mean length of 1,000 rows is known to a few percent."""

Echo = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    staged: Staged
    """The data. In an estimate, rows, lengths and buckets are extrapolated, and classes are not known."""
    sample_rows: int | None = None
    """Rows of the data that an estimate comes from; None if the data itself was staged."""


_Sample = tuple[int, list[int], int]
"""Number of rows that were read, the length in tokens of each training row that they make, and how many validation rows
they would make."""


def stage_or_estimate(request: StagingRequest, home: Path, echo: Echo, progress: Progress | None = None) -> Estimate:
    """Return the staged data of a request, staged in `home` if it is small, or else an estimate from its first rows.

    Raises InputError for the errors of the data that these rows show.
    """
    if not is_in_s3(request.data) and is_small(request.data):
        return Estimate(staged=stage(request, home, echo, progress))
    inputs = find_inputs(request, home)
    model, source = inputs.model, inputs.source
    if read_manifest(inputs.folder) is not None or (is_in_s3(request.data) and _is_small_source(source)):
        return Estimate(staged=stage(request, home, echo, progress))
    progress = progress or Progress()
    progress.begin("reading the first rows")
    tokenizer = load_tokenizer(model.tokenizer, None if model.scratch else request.max_length)
    with closing(source):
        (sample_rows, lengths, _), (train, validation) = _sample_and_rows(source, request, tokenizer, echo)
    check_rows(train, request, source.description)
    # Rows that are longer than the sample are likely, and the last bucket must hold them.
    staged = inputs.staged(
        dict(sorted(Counter(lengths).items())),
        request.max_length,
        cached=False,
        train_rows=train,
        validation_rows=validation,
        label_names=(),
        train_class_counts=(),
        validation_class_counts=(),
    )
    return Estimate(staged=staged, sample_rows=sample_rows)


def _sample_and_rows(
    source: Source, request: StagingRequest, tokenizer: Any, echo: Echo
) -> tuple[_Sample, tuple[int, int]]:
    data = request.data
    columns = list(TASKS[request.task].columns(data.columns))
    if not source.files:
        tables = streamed_tables(data.hub, columns) if data.hub is not None else source.open()
        sample = _sampled(tables.train, request, tokenizer)
        return sample, _channel_rows(tables, (), sample, request)

    def read() -> tuple[_Sample, tuple[int, int]]:
        parts = zip(source.files, starts, strict=True)
        tables = tables_of([file_table(files, columns, data, start.files) for files, start in parts])
        sample = _sampled(tables.train, request, tokenizer)
        return sample, _channel_rows(tables, starts, sample, request)

    starts = [_start(each, data.text_format, echo) for each in source.files]
    try:
        return read()
    except InputError:
        if all(each.is_exact for each in starts):
            raise
    source.close()
    starts = [_start(each, data.text_format, echo, whole=True) for each in source.files]
    return read()


def _start(files: DataFiles | StoredFiles, text: TextFormat, echo: Echo, *, whole: bool = False) -> Start:
    """Return files whose first rows are to be read.

    Objects are copied as a whole if their format requires it, or always with `whole`. Before that, `echo` gets their
    number and size.
    """
    if isinstance(files, DataFiles):
        return Start(files=files)
    if files.can_start(text) and not whole:
        return files.start()
    reason = "their first rows show too little" if whole else "their format cannot be read in part"
    echo(f"The plan copies {files.description}: {reason}.")
    return Start(files=files.copies())


def _is_small_source(source: Source) -> bool:
    """Return whether files here and in S3 are staged within seconds. The objects are listed, and not read."""
    sizes = (
        each.size_bytes * (PACKED_FACTOR if each.is_packed else 1)
        if isinstance(each, StoredFiles)
        else sum(map(_text_bytes, each.paths))
        for each in source.files
    )
    return sum(sizes) <= SMALL_BYTES


def is_small(data: Data) -> bool:
    """Return whether data is staged within seconds. Data of the Hub is not, unless it is in Hugging Face's cache.

    Data in S3 has no size here: it is known once the objects are listed.
    """
    if data.builtin is not None:
        return True
    if data.hub is not None:
        folder = Path(data.hub.name)
        if not folder.is_dir():
            return is_offline()
        return sum(_text_bytes(path) for path in folder.rglob("*") if path.is_file()) <= SMALL_BYTES
    paths = [path for files in find_files(data).values() for path in files.paths]
    return sum(_text_bytes(path) for path in paths) <= SMALL_BYTES


def _text_bytes(path: Path) -> int:
    """Return the approximate size of a file's text."""
    size = path.stat().st_size
    return size * PACKED_FACTOR if is_packed(path) or path.suffix.lower() in BINARY else size


def _sampled(table: Table, request: StagingRequest, tokenizer: Any) -> _Sample:
    rows = list(islice(table.rows, SAMPLE_ROWS))
    lengths = row_lengths(replace(table, rows=iter(rows)), request, tokenizer)
    if not lengths:
        raise InputError(f"the first {len(rows)} rows of {table.name} make no row to train on")
    if not TASKS[request.task].predicts_tokens:
        return len(rows), lengths, len(lengths)
    return len(rows), lengths, len(row_lengths(replace(table, rows=iter(rows)), request, tokenizer, for_scoring=True))


def _channel_rows(tables: Tables, starts: Sequence[Start], sample: _Sample, request: StagingRequest) -> tuple[int, int]:
    """Return the estimated rows of both channels. `tables.train` has been read up to the sample's end."""
    data = request.data
    train_start, validation_start = (*starts, None, None)[:2]
    read, lengths, scored = sample
    total = _row_count(train_start, data, tables.train, read)
    if tables.validation is not None:
        validation = _row_count(validation_start, data, tables.validation, 0)
        train = total
    else:
        needed = first_rows(data)
        total = total if needed is None else min(total, needed)
        validation = validation_count(total, data.validation_share)
        train = total - validation
    limits = ((train, data.train_rows), (validation, data.validation_rows))
    first, second = (count if limit is None else min(count, limit) for count, limit in limits)
    return max(1, round(first * len(lengths) / read)), max(1, round(second * scored / read))


def _row_count(start: Start | None, data: Data, table: Table, read: int) -> int:
    """Return the number of rows of a table, from its files' sizes where that is possible, and else by counting.

    `read` rows of `table` have been read.
    """
    if start is not None:
        counts = {path: _rows_by_size(path, data.text_format) for path in start.files.paths}
        if None not in counts.values():
            return round(sum((count or 0) * start.scales.get(path, 1.0) for path, count in counts.items()))
    return read + sum(1 for _ in table.rows)


def _rows_by_size(path: Path, text: TextFormat) -> int | None:
    """Return the number of rows in a file; None if its size does not show it."""
    kind = reader_name(path)
    if kind == ".parquet" and not is_packed(path):
        import pyarrow.parquet as pq

        return int(pq.ParquetFile(path).metadata.num_rows)
    if kind not in LINES:
        return None
    first, share = read_start(path)
    lines = sum(1 for line in first.decode(text.encoding, "replace").splitlines() if line.strip())
    return max(1, round(lines / share))
