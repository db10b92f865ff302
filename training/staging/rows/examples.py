"""Rows, checked: a text that says something and a label of one kind in every row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from training.contract.errors import InputError
from training.staging.sources.readers import Row
from training.staging.sources.request import Columns

Label = str | int


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Labelled texts, one list a column, all of the same length."""

    source: str
    """File or Hub split they come from, for error messages."""
    unit: str
    """What `numbers` counts in the source: `line` or `row`."""
    numbers: list[int] = field(default_factory=list)
    """Where each row stands in the source, from 1."""
    texts: list[str] = field(default_factory=list)
    """First or only text of each row."""
    pairs: list[str] | None = None
    """Second text of each row; None where rows have one."""
    labels: list[Label] = field(default_factory=list)
    """Label of each row as the data spells it."""

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, index: int) -> str:
        """Return where row `index` (from 0) stands, as messages say it."""
        return f"{self.source} {self.unit} {self.numbers[index]}"

    def select(self, indices: Iterable[int]) -> Examples:
        """Return the rows at `indices`, in that order."""
        chosen = list(indices)
        return Examples(
            source=self.source,
            unit=self.unit,
            numbers=[self.numbers[at] for at in chosen],
            texts=[self.texts[at] for at in chosen],
            pairs=None if self.pairs is None else [self.pairs[at] for at in chosen],
            labels=[self.labels[at] for at in chosen],
        )


def collect(
    rows: Iterable[Row], *, source: str, unit: str, columns: Columns, limit: int | None, skip: Collection[str] = ()
) -> Examples:
    """Check the first `limit` rows, or all, and return them; rows whose label is in `skip` do not count."""
    examples = Examples(source=source, unit=unit, pairs=[] if columns.text_pair else None)
    kept = (row for row in rows if spelling(row[1][1]) not in skip) if skip else rows
    for number, values in islice(kept, limit):
        place = f"{source} {unit} {number}"
        examples.numbers.append(number)
        examples.texts.append(text_of(place, columns.text, values[0]))
        examples.labels.append(_label(place, columns.label, values[1]))
        if examples.pairs is not None:
            examples.pairs.append(text_of(place, str(columns.text_pair), values[2]))
    if not examples.texts:
        raise InputError(f"{source} has no rows" + (" beside those of data.skip_labels" if skip else ""))
    return examples


def text_of(place: str, column: str, value: Any, *, may_be_blank: bool = False) -> str:
    """Return a value that must be text that can be written, and say something."""
    if not isinstance(value, str):
        raise InputError(f"{place}: column {column!r} must be text, not {shown(value)}")
    if not value.strip() and not may_be_blank:
        raise InputError(f"{place}: column {column!r} is empty")
    if not _is_clean(value):
        raise InputError(f"{place}: column {column!r} holds a NUL or half a surrogate pair, which is no text")
    return value


def _is_clean(text: str) -> bool:
    """Tell whether text can be written as UTF-8; JSON escapes can spell what cannot."""
    if "\0" in text:
        return False
    try:
        text.isascii() or text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _label(place: str, column: str, value: Any) -> Label:
    """Return a label without the blanks around it; words and whole numbers are labels."""
    if isinstance(value, str):
        return text_of(place, column, value).strip()
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a column of whole numbers with gaps is kept as floats by most tools
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{place}: label {shown(value)} must be a word or a whole number from 0 up")
    return value


def spelling(value: Any) -> str:
    """Return a label as text, by which 4, 4.0 and ' 4 ' are the same one."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def shown(value: Any) -> str:
    """Return a value for an error message, shortened."""
    if value is None:
        return "nothing (null)"
    # An integer of thousands of digits cannot be turned into text at all.
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    if isinstance(value, (list, tuple, dict, set)):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
