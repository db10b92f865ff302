"""Read the rows of a data file: the readers by suffix, and tables (CSV, TSV) with the delimiter in their header."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.job.tasks import SQUAD_COLUMNS
from training.staging.formats.columnar import columnar_rows
from training.staging.formats.files import (
    COMPRESSIONS,
    DEFAULT_FORMAT,
    MAX_LINE_CHARACTERS,
    MissingColumn,
    Row,
    TextFormat,
    missing_column,
    plain_suffix,
    text_lines,
)
from training.staging.formats.json_rows import is_json_array, json_rows, line_rows, squad_rows

DELIMITERS = {",": "','", ";": "';'", "\t": "a tab", "|": "'|'"}
"""Delimiters that are looked for, and their names."""
USUAL = {".csv": ",", ".tsv": "\t"}
"""Delimiter that a suffix stands for."""
MAX_LINES, MAX_CHARACTERS = 20, 2**16
"""Text in which the header is looked for. In a longer one, the usual delimiter is assumed."""
SEP = "sep="
"""Beginning of a line before the header with which Excel states the delimiter."""


def table_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row, with the number of its last line."""
    csv.field_size_limit(MAX_LINE_CHARACTERS)
    first, lines = _first_lines(path, text)
    delimiter = _find_delimiter(first, columns, path, text)
    above = 1 if _stated_delimiter(first) is not None else 0
    for _ in range(above):
        next(lines)
    has_quotes = _quoting(path, delimiter) != csv.QUOTE_NONE
    reader: Any = csv.reader(lines, delimiter=delimiter, quoting=_quoting(path, delimiter), strict=True)  # type: ignore[arg-type]
    try:
        header: list[str] = next((row for row in reader if row), [])
        positions = [
            _position(f"{path} line {reader.line_num + above}", column, header, path, delimiter, text)
            for column in columns
        ]
        for row in reader:
            if row and len(row) != len(header):
                is_quoted = not has_quotes and any(field.startswith('"') for field in row)
                raise InputError(
                    f"{path} line {reader.line_num + above} has {len(row)} fields, but the header has {len(header)}"
                    + ("; quotation marks have a meaning in .csv, but not in .tsv: rename the file" * is_quoted)
                )
            if row:
                yield reader.line_num + above, [row[position] for position in positions]
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num + above} is malformed: {error}") from error


def _position(place: str, column: str, header: Sequence[str], path: Path, delimiter: str, text: TextFormat) -> int:
    """Return the position of a column. Raises InputError if it is missing or occurs twice."""
    if header.count(column) > 1:
        raise InputError(f"{place} has the column {column!r} twice")
    if column in header:
        return header.index(column)
    reading = ""
    if len(header) == 1 and not text.delimiter:
        reading = (
            f" None of {', '.join(DELIMITERS.values())} separates its fields: set {text.prefix}delimiter if another "
            "character does."
        )
    elif len(header) > 1 and not text.delimiter and not is_usual(path, delimiter):
        reading = f" Its fields were separated at {delimiter_name(delimiter)}."
    raise MissingColumn(f"{missing_column(place, column, header)}{reading}")


def table_delimiter(path: Path, columns: Sequence[str], text: TextFormat) -> str:
    """Return the delimiter of a table. Raises InputError for a file that cannot be read."""
    first, _ = _first_lines(path, text)
    return _find_delimiter(first, columns, path, text)


def delimiter_name(delimiter: str) -> str:
    return DELIMITERS.get(delimiter, repr(delimiter))


def is_table(path: Path) -> bool:
    """Return whether a file is a table with a delimiter, by its suffix."""
    return plain_suffix(path) in USUAL


def is_usual(path: Path, delimiter: str) -> bool:
    """Return whether the suffix of a table stands for this delimiter."""
    return USUAL[plain_suffix(path)] == delimiter


def _quoting(path: Path, delimiter: str) -> int:
    """Return the meaning of quotation marks: none in TSV as its media type and GLUE define it."""
    return csv.QUOTE_NONE if plain_suffix(path) == ".tsv" and delimiter == "\t" else csv.QUOTE_MINIMAL


def _first_lines(path: Path, text: TextFormat) -> tuple[list[str], Iterator[str]]:
    lines, first = (line for _, line in text_lines(path, text)), list[str]()
    while len(first) < MAX_LINES and sum(map(len, first)) <= MAX_CHARACTERS and (line := next(lines, None)) is not None:
        first.append(line)
    return first, chain(first, lines)


def _stated_delimiter(first: Sequence[str]) -> str | None:
    """Return the delimiter that Excel's line `sep=;` before the header states, or None without this line."""
    line = first[0].rstrip("\r\n") if first else ""
    is_stated = line[: len(SEP)].lower() == SEP and len(line) == len(SEP) + 1
    return line[-1] if is_stated and line[-1] not in '"\0' else None


def _find_delimiter(first: Sequence[str], columns: Sequence[str], path: Path, text: TextFormat) -> str:
    """Return the delimiter: as requested, as stated, or else the one by which the header has all `columns`.

    At most one has, unless the header is a single column, because both sides of a name are delimiters or line ends.
    Without such a header, which is an error, it is the one that gives the header the most fields.
    """
    if (known := text.delimiter or _stated_delimiter(first)) is not None:
        return known
    usual = USUAL[plain_suffix(path)]
    if sum(map(len, first)) > MAX_CHARACTERS:
        return usual
    headers: dict[str, list[str]] = {}
    for delimiter in dict.fromkeys([usual, *DELIMITERS]):
        reader = csv.reader(first, delimiter=delimiter, quoting=_quoting(path, delimiter))  # type: ignore[arg-type]
        headers[delimiter] = []
        with suppress(csv.Error):
            headers[delimiter] = next((row for row in reader if row), [])
    matches = (delimiter for delimiter, header in headers.items() if all(column in header for column in columns))
    return next(matches, max(headers, key=lambda delimiter: len(headers[delimiter])))


ADVICE = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"), "save the sheet as CSV"),
    **dict.fromkeys((".pkl", ".pickle"), "a pickle can run any code, so convert it with pandas' to_parquet"),
    ".orc": "convert it with pandas' to_parquet",
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), "unpack it"),
    **dict.fromkeys((".xz", ".lz4", ".br", ".sz"), f"decompress it, or use {', '.join(COMPRESSIONS)}"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "export the table as CSV"),
}
"""Advice for files that are not read, by suffix."""


def read_rows(path: Path, columns: Sequence[str], text: TextFormat = DEFAULT_FORMAT) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order. The file's suffix determines the reader."""
    if _is_squad(path, columns):
        return squad_rows(path, text)
    return READERS[reader_name(path)](path, columns, text)


def _is_squad(path: Path, columns: Sequence[str]) -> bool:
    return reader_name(path) == ".json" and tuple(columns) == SQUAD_COLUMNS


def reader_name(path: Path) -> str:
    """Return the suffix that determines the reader, without the suffix of a compression."""
    suffix = plain_suffix(path)
    if suffix in ADVICE:
        raise InputError(f"{path} cannot be read: {ADVICE[suffix]}")
    if suffix not in READERS:
        known, packed = ", ".join(READERS), " or ".join(COMPRESSIONS)
        raise InputError(f"{path} has the unknown suffix {suffix!r}; use {known}, optionally followed by {packed}")
    return suffix


def unit_of(path: Path, columns: Sequence[str], text: TextFormat = DEFAULT_FORMAT) -> str:
    """Return the unit of the row numbers of this file: `line`, `row` or `question`. A file .json is opened for it."""
    name = reader_name(path)
    if _is_squad(path, columns):
        return "question"
    is_array = name == ".json" and is_json_array(path, text)
    return "row" if name in BINARY or is_array else "line"


def _plain_text(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield each line that is not blank. The line end is kept to separate the lines when texts are joined."""
    if len(columns) != 1:
        listed = " and ".join(repr(column) for column in columns)
        raise InputError(
            f"{path} is plain text, which has one text per line; the columns {listed} need JSON Lines, CSV or TSV. "
            "Name a table .csv or .tsv"
        )
    for number, line in text_lines(path, text):
        if line.strip():
            yield number, [line.rstrip("\r\n") + "\n"]


READERS: dict[str, Callable[[Path, Sequence[str], TextFormat], Iterator[Row]]] = {
    ".jsonl": line_rows,
    ".ndjson": line_rows,
    ".json": json_rows,
    ".csv": table_rows,
    ".tsv": table_rows,
    ".parquet": columnar_rows,
    ".arrow": columnar_rows,
    ".feather": columnar_rows,
    ".ipc": columnar_rows,
    ".txt": _plain_text,
}
BINARY = frozenset({".parquet", ".arrow", ".feather", ".ipc"})
"""Formats that are not text."""
