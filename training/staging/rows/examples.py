"""Checked labelled texts: every row has a text that is not blank and a valid label."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from training.contract.errors import InputError
from training.contract.errors import short_text as short_text
from training.staging.sources.request import Columns
from training.staging.sources.sources import Location, Table

Label = str | int

_DECIMAL_WHOLE_NUMBER = re.compile(r"(-?[0-9]{1,18})[.,]0+")

MAX_TEXT_CHARACTERS = 1_500_000
"""Longest text of a row. A tokenizer needs about 160 bytes of memory for each character."""


class Example(NamedTuple):
    """A labelled text, or pair of texts."""

    number: int
    """Number of the row in the source, from 1."""
    text: str
    """First or only text."""
    pair: str | None
    """Second text; None if rows have one text."""
    label: Label
    """Label as spelled in the data."""


def read_examples(table: Table, columns: Columns, skip: Collection[str] = ()) -> Iterator[Example]:
    """Check and yield the rows of a table, except those with a label in `skip`."""
    for number, values in table.rows:
        if skip and label_text(values[1]) in skip:
            continue
        location = Location(table, number)
        text = checked_text(location, columns.text, values[0])
        label = _label(location, columns.label, values[1])
        pair = checked_text(location, str(columns.text_pair), values[2]) if columns.text_pair else None
        yield Example(number, text, pair, label)


def checked_text(location: Location | str, column: str, value: Any, *, may_be_blank: bool = False) -> str:
    """Return the value. Raises InputError unless it is text that is not blank and can be written as UTF-8."""
    if not isinstance(value, str):
        raise InputError(f"{location}: column {column!r} must be text, not {short_text(value)}")
    if not value.strip() and not may_be_blank:
        raise InputError(f"{location}: column {column!r} is empty")
    if len(value) > MAX_TEXT_CHARACTERS:
        size = f"{len(value):,} characters, and a row may have {MAX_TEXT_CHARACTERS:,}"
        raise InputError(f"{location}: column {column!r} has {size}; split the text into several rows")
    if not _is_clean(value):
        raise InputError(f"{location}: column {column!r} contains a NUL or an unpaired surrogate")
    return value


def _is_clean(text: str) -> bool:
    """Return whether text has no NUL and can be written as UTF-8, which some JSON escapes cannot."""
    if "\0" in text:
        return False
    try:
        text.isascii() or text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _label(location: Location | str, column: str, value: Any) -> Label:
    """Return a label without surrounding blanks. Raises InputError unless it is a word or a whole number."""
    if isinstance(value, str):
        return checked_text(location, column, value).strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)  # Most tools store whole numbers as floats if the column has missing values.
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"{location}: label {short_text(value)} must be a word or a whole number of at least 0, such as 1 or 1.0"
        )
    return value


def label_text(value: Any) -> str:
    """Return a label as text, the same text for 4, 4.0, ' 4 ' and '4.0'."""
    return whole_text(str(int(value) if isinstance(value, float) and value.is_integer() else value).strip())


def whole_text(text: str) -> str:
    """Return a whole number that is written as a decimal number, '1.0' or '1,0', as '1'; other text unchanged."""
    match = _DECIMAL_WHOLE_NUMBER.fullmatch(text)
    return text if match is None else match[1]
