"""Texts without labels, and the check of every text."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from training.contract.errors import InputError, short_text
from training.staging.rows.selection import Reading, Selection, Split, drawn_mask, select, split_by, validation_count
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data
from training.staging.sources.sources import Location, Table, Tables

MAX_TEXT_CHARACTERS = 1_500_000
"""Longest text of a row. A tokenizer needs about 160 bytes of memory for each character."""


class Text(NamedTuple):
    """A text that is not blank."""

    number: int
    """Number of its row in the source, from 1."""
    text: str


class TextSurvey:
    """Number of texts in one table."""

    def __init__(self, table: Table) -> None:
        self._table, self.rows = table, 0

    def add(self, row: Text) -> None:
        """Count a text."""
        self.rows += 1

    def finish(self, read_again: object = None) -> None:
        """Raise InputError for a table without texts."""
        if not self.rows:
            raise InputError(f"{self._table.name} has only blank texts")

    def split(self, share: float, seed: int) -> Split[Text] | None:
        """Set a random share of the texts aside."""
        if self.rows < 2:
            return None
        return split_by(drawn_mask(random.Random(seed), self.rows, validation_count(self.rows, share)))

    def too_few(self) -> InputError:
        """Return the error for a single text."""
        return InputError(f"{self._table.name} has only one text, too few to set validation texts aside")


def select_texts(open_tables: Callable[[], Tables], data: Data, progress: Progress) -> Selection[Text, TextSurvey]:
    """Return the texts of both channels. Limits on rows keep the first texts of each after the split."""
    column = data.columns.text
    reading = Reading(
        open=open_tables,
        rows=lambda table: read_texts(table, column),
        survey=TextSurvey,
        data=data,
        progress=progress,
    )
    return select(reading)


def read_texts(table: Table, column: str) -> Iterator[Text]:
    """Yield the texts of a table. Blank texts are skipped: they contain nothing to learn."""
    for number, values in table.rows:
        text = checked_text(Location(table, number), column, values[0], may_be_blank=True)
        if text.strip():
            yield Text(number, text)


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


def hash_of(*texts: str) -> int:
    """Return a 64-bit hash of texts in this order, the same in every process."""
    digest = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
