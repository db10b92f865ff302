"""Find the delimiter of a table in its header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from training.staging.formats.text_format import TextFormat

DELIMITERS = {",": "','", ";": "';'", "\t": "a tab", "|": "'|'"}
"""Delimiters that are looked for, and their names."""
USUAL = {".csv": ",", ".tsv": "\t"}
"""Delimiter that a suffix stands for."""
MAX_LINES = 20
MAX_CHARACTERS = 2**16
"""Text that is looked at. In a longer header, the usual delimiter is assumed."""
SEP = "sep="
"""Beginning of a line before the header with which Excel states the delimiter."""


def delimiter_name(delimiter: str) -> str:
    """Return a delimiter as text for people."""
    return DELIMITERS.get(delimiter, repr(delimiter))


def quoting(suffix: str, delimiter: str) -> int:
    """Return the meaning of quotation marks: none in TSV as its media type and GLUE define it."""
    return csv.QUOTE_NONE if suffix == ".tsv" and delimiter == "\t" else csv.QUOTE_MINIMAL


def first_lines(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """Return the first lines, and all lines."""
    first: list[str] = []
    while len(first) < MAX_LINES and sum(map(len, first)) <= MAX_CHARACTERS and (line := next(lines, None)) is not None:
        first.append(line)
    return first, chain(first, lines)


def stated_delimiter(first: Sequence[str]) -> str | None:
    """Return the delimiter that Excel's line `sep=;` before the header states, or None without this line."""
    line = first[0].rstrip("\r\n") if first else ""
    is_stated = line[: len(SEP)].lower() == SEP and len(line) == len(SEP) + 1
    return line[-1] if is_stated and line[-1] not in '"\0' else None


def find_delimiter(first: Sequence[str], columns: Sequence[str], suffix: str, text: TextFormat) -> str:
    """Return the delimiter: as requested, as stated, or else the one by which the header has all `columns`.

    At most one has, unless the header is a single column, because both sides of a name are delimiters or line ends.
    Without such a header, which is an error, it is the one by which the first lines agree on the most fields.
    """
    usual = USUAL[suffix]
    if (known := text.delimiter or stated_delimiter(first)) is not None:
        return known
    if sum(map(len, first)) > MAX_CHARACTERS:
        return usual
    shapes = {usual: 1}
    for delimiter in dict.fromkeys([usual, *DELIMITERS]):
        header, *rows = _rows(first, delimiter, quoting(suffix, delimiter)) or [[]]
        if all(column in header for column in columns):
            return delimiter
        if all(len(row) == len(header) for row in rows[:-1]):  # The last row may be cut.
            shapes[delimiter] = len(header)
    return max(shapes, key=shapes.__getitem__)


def _rows(lines: Sequence[str], delimiter: str, quoting: int) -> list[list[str]]:
    try:
        reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)  # type: ignore[arg-type]
        return list(islice((row for row in reader if row), MAX_LINES))
    except csv.Error:
        return []
