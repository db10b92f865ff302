"""Readers of JSON Lines, CSV, TSV, Parquet and text files, which yield numbered rows one at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.sources.expansion import Expansion, check_values
from training.staging.sources.files import MAX_LINE_BYTES, text_lines
from training.staging.sources.parquet import parquet_rows
from training.staging.sources.row import Row, missing_column


def read_rows(path: Path, columns: Sequence[str], expansion: Expansion) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order. The file's suffix determines the reader."""
    return READERS[reader_name(path)](path, columns, expansion)


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


def _json_lines(path: Path, columns: Sequence[str], expansion: Expansion) -> Iterator[Row]:
    for number, line in text_lines(path, expansion):
        if not line.strip():
            continue
        row = _json_object(f"{path} line {number}", line)
        try:
            values = [row[column] for column in columns]
        except KeyError as error:
            raise missing_column(f"{path} line {number}", error.args[0], list(row)) from error
        yield number, values


def _json_object(location: str, line: str) -> dict[str, Any]:
    check_values(location, line)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"{location} is not JSON: {reason}") from error
    if not isinstance(row, dict):
        raise InputError(f"{location} must be a JSON object, not {type(row).__name__}")
    return row


def _comma_separated(path: Path, columns: Sequence[str], expansion: Expansion) -> Iterator[Row]:
    return _table(path, columns, expansion, delimiter=",", quoting=csv.QUOTE_MINIMAL)


def _tab_separated(path: Path, columns: Sequence[str], expansion: Expansion) -> Iterator[Row]:
    """Read TSV as its media type and GLUE define it: quotation marks have no special meaning."""
    return _table(path, columns, expansion, delimiter="\t", quoting=csv.QUOTE_NONE)


def _table(path: Path, columns: Sequence[str], expansion: Expansion, *, delimiter: str, quoting: Any) -> Iterator[Row]:
    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader(
        _lines_with_few_values(path, expansion, delimiter), delimiter=delimiter, quoting=quoting, strict=True
    )
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


def _lines_with_few_values(path: Path, expansion: Expansion, delimiter: str) -> Iterator[str]:
    for number, line in text_lines(path, expansion):
        check_values(f"{path} line {number}", line, delimiter)
        yield line


def _position(path: Path, line: int, column: str, header: Sequence[str]) -> int:
    if header.count(column) > 1:
        raise InputError(f"{path} line {line} has the column {column!r} twice")
    if column not in header:
        raise missing_column(f"{path} line {line}", column, header)
    return header.index(column)


def _plain_text(path: Path, columns: Sequence[str], expansion: Expansion) -> Iterator[Row]:
    """Yield each line that is not blank. The line end is kept to separate the lines when texts are joined."""
    if len(columns) != 1:
        listed = " and ".join(repr(column) for column in columns)
        raise InputError(
            f"{path} is plain text, which has one text per line; the columns {listed} need JSON Lines, CSV or TSV"
        )
    for number, line in text_lines(path, expansion):
        if line.strip():
            yield number, [line.rstrip("\r\n") + "\n"]


READERS: dict[str, Callable[[Path, Sequence[str], Expansion], Iterator[Row]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".csv": _comma_separated,
    ".tsv": _tab_separated,
    ".parquet": parquet_rows,
    ".txt": _plain_text,
}
