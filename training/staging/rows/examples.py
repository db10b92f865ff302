"""Checked labelled texts: every row has a text that is not blank and a valid label."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from training.contract.errors import InputError
from training.staging.sources.request import Columns
from training.staging.sources.row import Row

Label = str | int

MAX_TEXT_CHARACTERS = 1_500_000
"""Longest text of a row. A tokenizer needs about 160 bytes of memory for each character."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Labelled texts: one list per column, all of the same length."""

    source: str
    """File or Hub split of the rows, for error messages."""
    unit: str
    """Unit of `numbers`: `line` or `row`."""
    numbers: list[int] = field(default_factory=list)
    """Number of each row in the source, from 1."""
    texts: list[str] = field(default_factory=list)
    """First or only text of each row."""
    pairs: list[str] | None = None
    """Second text of each row; None if rows have one text."""
    labels: list[Label] = field(default_factory=list)
    """Label of each row as spelled in the data."""

    def __len__(self) -> int:
        return len(self.texts)

    def location(self, index: int) -> str:
        """Return the location of row `index` (from 0) for messages, such as `a.csv line 3`."""
        return f"{self.source} {self.unit} {self.numbers[index]}"

    def select(self, indices: Iterable[int]) -> Examples:
        """Return the rows at `indices`, in that order."""
        indices = list(indices)
        return Examples(
            source=self.source,
            unit=self.unit,
            numbers=[self.numbers[index] for index in indices],
            texts=[self.texts[index] for index in indices],
            pairs=None if self.pairs is None else [self.pairs[index] for index in indices],
            labels=[self.labels[index] for index in indices],
        )


def collect(
    rows: Iterable[Row], *, source: str, unit: str, columns: Columns, limit: int | None, skip: Collection[str] = ()
) -> Examples:
    """Check and return the first `limit` rows, or all. Rows with a label in `skip` are left out before counting."""
    examples = Examples(source=source, unit=unit, pairs=[] if columns.text_pair else None)
    kept = (row for row in rows if label_text(row[1][1]) not in skip) if skip else rows
    for number, values in islice(kept, limit):
        location = f"{source} {unit} {number}"
        examples.numbers.append(number)
        examples.texts.append(checked_text(location, columns.text, values[0]))
        examples.labels.append(_label(location, columns.label, values[1]))
        if examples.pairs is not None:
            examples.pairs.append(checked_text(location, str(columns.text_pair), values[2]))
    if not examples.texts:
        raise InputError(f"{source} has no rows" + (" except those with a label in data.skip_labels" if skip else ""))
    return examples


def checked_text(location: str, column: str, value: Any, *, may_be_blank: bool = False) -> str:
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


def _label(location: str, column: str, value: Any) -> Label:
    """Return a label without surrounding blanks. Raises InputError unless it is a word or a whole number."""
    if isinstance(value, str):
        return checked_text(location, column, value).strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)  # Most tools store whole numbers as floats if the column has missing values.
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{location}: label {short_text(value)} must be a word or a whole number of at least 0")
    return value


def label_text(value: Any) -> str:
    """Return a label as text, the same text for 4, 4.0 and ' 4 '."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def short_text(value: Any) -> str:
    """Return a value as short text for an error message."""
    if value is None:
        return "null"
    # Python refuses to convert an integer of thousands of digits to text.
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    if isinstance(value, (list, tuple, dict, set)):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
