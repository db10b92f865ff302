"""Read JSON Lines, and JSON arrays of objects, row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.formats.compression import is_packed, plain_path
from training.staging.formats.expansion import Expansion
from training.staging.formats.json_stream import json_stream
from training.staging.formats.row import Row, missing_column
from training.staging.formats.text import BYTE_ORDER_MARK, MAX_LINE_CHARACTERS, open_text, text_lines
from training.staging.formats.text_format import TextFormat

START_CHARACTERS = 4_096
AS_ROWS = "write it as rows, such as with pandas' to_json(path, orient='records', lines=True)"


def json_rows(path: Path, columns: Sequence[str], expansion: Expansion, text: TextFormat) -> Iterator[Row]:
    """Yield the rows of a file with the suffix .json: a JSON array of objects, or JSON Lines."""
    if is_json_array(path, text):
        return array_rows(path, columns, expansion, text)
    return line_rows(path, columns, expansion, text)


def is_json_array(path: Path, text: TextFormat) -> bool:
    """Return whether a file contains a JSON array, by its first character. Raises InputError for one without text."""
    with open_text(path, text) as stream:
        start = stream.read(START_CHARACTERS)
    return start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith("[")


def array_rows(path: Path, columns: Sequence[str], expansion: Expansion, text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every object of a JSON array. Only one of them is in memory at a time."""
    with json_stream(path, expansion, text, MAX_LINE_CHARACTERS) as stream:
        for number, row in enumerate(stream.elements(), start=1):
            if is_packed(path):
                expansion.add(0)
            yield number, _values(f"{path} row {number}", row, columns)
        stream.end()


def line_rows(path: Path, columns: Sequence[str], expansion: Expansion, text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every line that is not blank."""
    for number, line in text_lines(path, expansion, text):
        if not line.strip():
            continue
        location = f"{path} line {number}"
        row = _parsed(location, line, plain_path(path).suffix.lower())
        if (
            number == 1
            and isinstance(row, dict)
            and len(row) > 1
            and all(isinstance(each, dict) for each in row.values())
        ):
            raise InputError(f"{location} contains a whole table by columns; {AS_ROWS}")
        yield number, _values(location, row, columns)


def _parsed(location: str, line: str, suffix: str) -> Any:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"{location} is not JSON: {reason}{_advice(line, suffix)}") from error
    if isinstance(row, list):
        raise InputError(f"{location} must be a JSON object, not list{_advice(line, suffix)}")
    return row


def _advice(line: str, suffix: str) -> str:
    """Return the way on for a document that is spread over lines, or an array; empty for other text."""
    start = line.strip()
    if start.startswith("[") and suffix != ".json":
        return "; a file that is one JSON array needs the suffix .json"
    return "; each line must be one object, or the file one array of objects" if start == "{" else ""


def _values(location: str, row: Any, columns: Sequence[str]) -> list[Any]:
    if not isinstance(row, Mapping):
        raise InputError(f"{location} must be a JSON object, not {type(row).__name__}")
    try:
        return [row[column] for column in columns]
    except KeyError as error:
        raise missing_column(location, error.args[0], list(row)) from error
