"""Read, check and split texts without labels."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from training.contract.errors import InputError
from training.staging.rows.examples import checked_text
from training.staging.rows.selection import Reading, Selection, Split, select
from training.staging.rows.split import drawn_mask, validation_count
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data
from training.staging.sources.sources import Location, Table, Tables


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
        mask = drawn_mask(random.Random(seed), self.rows, validation_count(self.rows, share))

        def start() -> Callable[[Text], bool]:
            unread = iter(mask)
            return lambda row: bool(next(unread, 0))

        return Split(validation_rows=mask.count(1), start=start)

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
