"""Read CSV and TSV files row by row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.formats.compression import plain_path
from training.staging.formats.delimiters import (
    DELIMITERS,
    USUAL,
    delimiter_name,
    find_delimiter,
    first_lines,
    quoting,
    stated_delimiter,
)
from training.staging.formats.expansion import MIN_VALUES, Expansion, check_values
from training.staging.formats.files import MAX_LINE_BYTES, text_lines
from training.staging.formats.row import MissingColumn, Row, missing_column
from training.staging.formats.text_format import TextFormat


def table_rows(path: Path, columns: Sequence[str], expansion: Expansion, text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row, with the number of its last line."""
    csv.field_size_limit(MAX_LINE_BYTES)
    suffix = _suffix(path)
    first, lines = first_lines(line for _, line in text_lines(path, expansion, text))
    delimiter = find_delimiter(first, columns, suffix, text)
    above = 1 if stated_delimiter(first) is not None else 0
    for _ in range(above):
        next(lines)
    reader: Any = csv.reader(
        _with_few_values(path, lines, delimiter, above),
        delimiter=delimiter,
        quoting=quoting(suffix, delimiter),  # type: ignore[arg-type]
        strict=True,
    )
    try:
        header: list[str] = next((row for row in reader if row), [])
        at = _Place(path, delimiter, text, above)
        positions = [at.position(reader.line_num, column, header) for column in columns]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise at.wrong_shape(reader.line_num, row, header)
            yield reader.line_num + above, [row[position] for position in positions]
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num + above} is malformed: {error}") from error


def table_delimiter(path: Path, columns: Sequence[str], text: TextFormat) -> str:
    """Return the delimiter of a table. Raises InputError for a file that cannot be read."""
    first, _ = first_lines(line for _, line in text_lines(path, Expansion(path, keeps_rows=False), text))
    return find_delimiter(first, columns, _suffix(path), text)


def is_table(path: Path) -> bool:
    """Return whether the suffix of a file is that of a table with a delimiter."""
    return _suffix(path) in USUAL


def is_usual(path: Path, delimiter: str) -> bool:
    """Return whether the suffix of a table stands for this delimiter."""
    return USUAL[_suffix(path)] == delimiter


def _suffix(path: Path) -> str:
    return plain_path(path).suffix.lower()


def _with_few_values(path: Path, lines: Iterator[str], delimiter: str, above: int) -> Iterator[str]:
    for number, line in enumerate(lines, start=1 + above):
        # `check_values` would pass shorter lines, too, but their location would be written out for nothing.
        if len(line) > MIN_VALUES:
            check_values(f"{path} line {number}", line, delimiter)
        yield line


class _Place:
    """Errors of one table."""

    def __init__(self, path: Path, delimiter: str, text: TextFormat, above: int) -> None:
        self._path, self._delimiter, self._text, self._above = path, delimiter, text, above

    def position(self, line: int, column: str, header: Sequence[str]) -> int:
        """Return the position of a column. Raises InputError if it is missing or occurs twice."""
        place = f"{self._path} line {line + self._above}"
        if header.count(column) > 1:
            raise InputError(f"{place} has the column {column!r} twice")
        if column not in header:
            raise MissingColumn(f"{missing_column(place, column, header)}{self._reading(header)}")
        return header.index(column)

    def _reading(self, header: Sequence[str]) -> str:
        if len(header) == 1:
            looked = "" if self._text.delimiter else f" None of {', '.join(DELIMITERS.values())} separates its fields:"
            return f"{looked} set {self._text.prefix}delimiter if another character does." if looked else ""
        is_known = self._text.delimiter is not None or is_usual(self._path, self._delimiter)
        return "" if is_known else f" Its fields were separated at {delimiter_name(self._delimiter)}."

    def wrong_shape(self, line: int, row: Sequence[str], header: Sequence[str]) -> InputError:
        """Return the error for a row with another number of fields than the header."""
        is_quoted = quoting(_suffix(self._path), self._delimiter) == csv.QUOTE_NONE and any(
            field.startswith('"') for field in row
        )
        advice = "; a quotation mark has no meaning in .tsv, but has in .csv: rename the file" if is_quoted else ""
        return InputError(
            f"{self._path} line {line + self._above} has {len(row)} fields, but the header has {len(header)}{advice}"
        )
