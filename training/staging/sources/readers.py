"""Readers of JSON Lines, CSV, TSV, Parquet and text files, which yield numbered rows one at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, nearest
from training.staging.sources.files import MAX_LINE_BYTES, open_bytes, text_lines

Row = tuple[int, list[Any]]
"""Number of the line (in Parquet: of the row) from 1, and the values of the requested columns."""


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order. The file's suffix determines the reader."""
    return READERS[reader_name(path)](path, columns)


def reader_name(path: Path) -> str:
    """Return the suffix that determines the reader, without a trailing `.gz`."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = plain.suffix.lower()
    if suffix not in READERS:
        known = ", ".join(READERS)
        raise InputError(f"{path} has the unknown suffix {suffix!r}; use {known}, optionally followed by .gz")
    return suffix


def unit_of(path: Path) -> str:
    """Return the unit of the row numbers of this file: `line` or `row`."""
    return "row" if reader_name(path) == ".parquet" else "line"


def missing_column(location: str, column: str, known: Sequence[str]) -> InputError:
    """Return the error for a missing column. It lists the existing columns and suggests the nearest."""
    listed = ", ".join(repr(str(name)[:60]) for name in known[:20])
    guess = nearest(column, [str(name) for name in known])
    return InputError(f"{location} has no column {column!r}; it has {listed or 'none'}.{guess}")


def _json_lines(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        row = _json_object(f"{path} line {number}", line)
        try:
            values = [row[column] for column in columns]
        except KeyError as error:
            raise missing_column(f"{path} line {number}", error.args[0], list(row)) from error
        yield number, values


def _json_object(location: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"{location} is not JSON: {reason}") from error
    if not isinstance(row, dict):
        raise InputError(f"{location} must be a JSON object, not {type(row).__name__}")
    return row


def _comma_separated(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    return _table(path, columns, delimiter=",", quoting=csv.QUOTE_MINIMAL)


def _tab_separated(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Read TSV as its media type and GLUE define it: quotation marks have no special meaning."""
    return _table(path, columns, delimiter="\t", quoting=csv.QUOTE_NONE)


def _table(path: Path, columns: Sequence[str], *, delimiter: str, quoting: Any) -> Iterator[Row]:
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (line for _, line in text_lines(path))
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = next((row for row in reader if row), [])
        positions = [_position(path, reader.line_num, column, header) for column in columns]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                shape = f"has {len(row)} fields, but the header has {len(header)}"
                raise InputError(f"{path} line {reader.line_num} {shape}")
            yield reader.line_num, [row[position] for position in positions]
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num} is malformed: {error}") from error


def _position(path: Path, line: int, column: str, header: Sequence[str]) -> int:
    if header.count(column) > 1:
        raise InputError(f"{path} line {line} has the column {column!r} twice")
    if column not in header:
        raise missing_column(f"{path} line {line}", column, header)
    return header.index(column)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_bytes(path) as stream:
        packed = path.suffix.lower() == ".gz"  # A Parquet file is read from its end, so decompress it into memory.
        source = pa.BufferReader(stream.read()) if packed else stream
        try:
            table = pq.ParquetFile(source, page_checksum_verification=True)
            names = table.schema_arrow.names
            for column in columns:
                if names.count(column) != 1:
                    raise missing_column(str(path), column, names)
            yield from _parquet_rows(table, columns)
        # A damaged file raises any of these, from its footer or from the middle of a column.
        except (pa.ArrowException, ValueError, OSError, MemoryError, KeyError, TypeError, OverflowError) as error:
            raise InputError(f"{path} is not a valid Parquet file: {_first_line(error)}") from error


def _parquet_rows(table: Any, columns: Sequence[str]) -> Iterator[Row]:
    number = 0
    for batch in table.iter_batches(batch_size=1_000, columns=list(columns)):
        for values in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
            number += 1
            yield number, list(values)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _plain_text(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield each line that is not blank. The line end is kept to separate the lines when texts are joined."""
    if len(columns) != 1:
        listed = " and ".join(repr(column) for column in columns)
        raise InputError(
            f"{path} is plain text, which has one text per line; the columns {listed} need JSON Lines, CSV or TSV"
        )
    for number, line in text_lines(path):
        if line.strip():
            yield number, [line.rstrip("\r\n") + "\n"]


READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[Row]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".csv": _comma_separated,
    ".tsv": _tab_separated,
    ".parquet": _parquet,
    ".txt": _plain_text,
}
