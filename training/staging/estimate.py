"""Estimate the staged data of large sources from their first rows, without staging them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.job.tasks import TASKS
from training.staging.formats.files import Row, TextFormat, is_packed, read_start
from training.staging.formats.readers import reader_name
from training.staging.sources.data_files import LINES, DataFiles, Start, StoredFiles, text_bytes
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import (
    Source,
    Table,
    Tables,
    file_table,
    is_offline,
    streamed_tables,
    tables_of,
)
from training.staging.stage import find_inputs, stage
from training.staging.tokens.channels import row_lengths
from training.staging.tokens.rows import check_rows, first_rows, validation_count
from training.staging.tokens.staged import ChannelDescription, DataDescription, Staged, length_statistics, read_manifest
from training.staging.tokens.tokenizing import load_tokenizer

SMALL_BYTES = 4 * 2**20
"""Size of data that is staged faster than a sample of it is worth."""
SAMPLE_ROWS = 1_000
"""Rows that are read and tokenised. The mean length of 1,000 rows is known to a few percent."""

Echo = Callable[[str], None]


_Sample = tuple[int, list[int]]
"""Number of rows that were read, and the length in tokens of each staged row that they make."""


def stage_or_estimate(request: StagingRequest, home: Path, echo: Echo, progress: Progress | None = None) -> Staged:
    """Return the staged data of a request, staged in `home` if it is small, or else an estimate from its first rows.

    Raises InputError for the errors of the data that these rows show.
    """
    progress = progress or Progress()
    progress.begin("looking for the model and the data")
    inputs = find_inputs(request, home)
    model, source = inputs.model, inputs.source
    if read_manifest(inputs.folder) is not None or _is_small(request.data, source):
        return stage(request, home, echo, progress)
    progress.begin("reading the first rows")
    tokenizer = load_tokenizer(model.tokenizer, None if model.scratch else request.max_length)
    with closing(source):
        (sample_rows, lengths), (train, validation) = _sample_and_rows(source, request, tokenizer, echo)
    check_rows(train, request, source.description)
    length_counts = dict(sorted(Counter(lengths).items()))
    description = DataDescription(
        task=None,
        max_length=None,
        label_names=(),
        train=ChannelDescription(rows=train, lengths=length_statistics(length_counts, request.max_length)),
        validation=ChannelDescription(rows=validation),
    )
    # Rows that are longer than the sample are likely, and the last bucket must hold them.
    staged = inputs.staged(description, length_counts, request.max_length, cached=False)
    return replace(staged, sample_rows=sample_rows)


def _sample_and_rows(
    source: Source, request: StagingRequest, tokenizer: Any, echo: Echo
) -> tuple[_Sample, tuple[int, int]]:
    data = request.data
    columns = list(TASKS[request.task].columns(data.columns))
    if not source.files:
        tables = streamed_tables(data.hub, columns) if data.hub is not None else source.open()
        sample = _sampled(tables.train, request, tokenizer)
        return sample, _channel_rows(tables, (), sample, request)

    starts = [_start(each, data.text_format, echo) for each in source.files]
    parts = zip(source.files, starts, strict=True)
    tables = tables_of([file_table(files, columns, data, start.files) for files, start in parts])
    sample = _sampled(tables.train, request, tokenizer, is_cut=starts[0].is_cut)
    return sample, _channel_rows(tables, starts, sample, request)


def _start(files: DataFiles | StoredFiles, text: TextFormat, echo: Echo) -> Start:
    """Return files whose first rows are to be read. `echo` reports objects that must be copied as a whole."""
    if isinstance(files, DataFiles):
        return Start(files=files)
    if files.can_start(text):
        return files.start()
    echo(f"The plan copies {files.described()}: their format cannot be read in part.")
    return Start(files=files.copies())


def _is_small(data: Data, source: Source) -> bool:
    """Return whether data is staged within seconds. Data of the Hub is not, unless it is in Hugging Face's cache."""
    if data.hub is not None:
        folder = Path(data.hub.name)
        if not folder.is_dir():
            return is_offline()
        return sum(text_bytes(path) for path in folder.rglob("*") if path.is_file()) <= SMALL_BYTES
    return sum(each.text_bytes for each in source.files) <= SMALL_BYTES


def _sampled(table: Table, request: StagingRequest, tokenizer: Any, *, is_cut: bool = False) -> _Sample:
    rows: list[Row] = []
    try:
        rows.extend(islice(table.rows, SAMPLE_ROWS))
    except InputError:  # extend keeps the rows before an error, which may be the cut
        if not rows or not is_cut:
            raise
    lengths = row_lengths(replace(table, rows=iter(rows)), request, tokenizer)
    if not lengths:
        raise InputError(f"the first {len(rows)} rows of {table.name} make no row to train on")
    return len(rows), lengths


def _channel_rows(tables: Tables, starts: Sequence[Start], sample: _Sample, request: StagingRequest) -> tuple[int, int]:
    """Return the estimated rows of both channels. `tables.train` has been read up to the sample's end."""
    data = request.data
    train_start, validation_start = (*starts, None, None)[:2]
    read, lengths = sample
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
    limited = (count if limit is None else min(count, limit) for count, limit in limits)
    first, second = (max(1, round(count * len(lengths) / read)) for count in limited)
    return first, second


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
