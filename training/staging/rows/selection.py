"""Select the rows of both channels in a first pass over the data. Later passes read them again, one at a time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from training.contract.errors import InputError
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data
from training.staging.sources.sources import Table, Tables

Channel = Literal["train", "validation"]

R = TypeVar("R")
S = TypeVar("S", bound="Survey[Any]")

IsValidation = Callable[[R], bool]
"""Return whether a row is a validation row. Called with each row once, in the order of the data."""


class Survey(Protocol[R]):
    """First pass over the rows of one table. It keeps at most a few bytes of each row."""

    def add(self, row: R) -> None:
        """Check and count a row. Raises InputError."""

    def finish(self, read_again: Callable[[], Iterator[R]]) -> None:
        """Check all rows together, given a way to read them again. Raises InputError."""

    def split(self, share: float, seed: int) -> Split[R] | None:
        """Set a share of the rows aside. Returns None if they are too few."""

    def too_few(self) -> InputError:
        """Return the error for rows that are too few to set some aside."""


@dataclass(frozen=True, kw_only=True)
class Split(Generic[R]):
    """Division of the rows of one table into training and validation rows."""

    validation_rows: int
    """Rows that are set aside."""
    start: Callable[[], IsValidation[R]]
    """Return the decision for each row of a new pass."""


@dataclass(frozen=True, kw_only=True)
class Part(Generic[R]):
    """Rows of one channel."""

    rows: int
    """Number of rows."""
    read: Callable[[], Iterator[R]]
    """Read the rows again, from the first."""


@dataclass(frozen=True, kw_only=True)
class Selection(Generic[R, S]):
    """The rows of both channels."""

    tables: Tables
    """Tables of the first pass, which are read."""
    surveys: tuple[S, ...]
    """Survey of the training table, and of the validation table if there is one."""
    train: Part[R]
    """Rows to train on."""
    validation: Part[R]
    """Rows to evaluate on."""

    @property
    def source(self) -> str:
        """Name of the training table, for messages."""
        return self.tables.train.name

    def part(self, channel: Channel) -> Part[R]:
        """Return the rows of a channel."""
        return self.train if channel == "train" else self.validation


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[R, S]):
    """Functions of a task that read and survey its tables."""

    open: Callable[[], Tables]
    """Open the data for one pass."""
    rows: Callable[[Table], Iterator[R]]
    """Read and check the rows of a table."""
    survey: Callable[[Table], S]
    """Return an empty survey of a table."""
    data: Data
    """Limits on rows, share and seed of the split."""
    progress: Progress

    def checked(self, table: Table) -> Iterator[R]:
        """Read the rows of a table for the first time."""
        return self.progress.count(f"checking {Path(table.name).name}", self.rows(table))

    def again(self, channel: Channel, rows: int) -> Iterator[R]:
        """Read the first rows of a table again."""
        return islice(self.rows(getattr(self.open(), channel)), rows)


def select(reading: Reading[R, S]) -> Selection[R, S]:
    """Return the rows of both channels. Raises InputError for any error in the rows."""
    tables, data = reading.open(), reading.data
    if tables.validation is None:
        return _split_off(reading, tables)
    train, train_part = _survey(reading, tables.train, data.train_rows, "train")
    validation, validation_part = _survey(reading, tables.validation, data.validation_rows, "validation")
    return Selection(tables=tables, surveys=(train, validation), train=train_part, validation=validation_part)


def _survey(reading: Reading[R, S], table: Table, limit: int | None, channel: Channel) -> tuple[S, Part[R]]:
    """Return the survey of the first `limit` rows of a table, or all, and these rows."""
    survey, rows = reading.survey(table), 0
    for row in islice(reading.checked(table), limit):
        survey.add(row)
        rows += 1
    survey.finish(lambda: reading.again(channel, rows))
    return survey, Part(rows=rows, read=lambda: _exactly(rows, reading.again(channel, rows)))


def _split_off(reading: Reading[R, S], tables: Tables) -> Selection[R, S]:
    """Set validation rows aside. Limits apply after the split: each part keeps its first rows.

    With a limit on training rows, only the first rows of the table are read and split: as many as both parts need.
    """
    data, survey = reading.data, reading.survey(tables.train)
    rows, needed, split = 0, first_rows(data), None
    unread = reading.checked(tables.train)
    while True:
        for row in islice(unread, None if needed is None else needed - rows):
            survey.add(row)
            rows += 1
        if needed is None or rows < needed:
            break
        split = survey.split(data.validation_share, data.split_seed)
        if split is not None and _is_enough(split, rows, data):
            break
        needed += max(needed // 10, 1)
    survey.finish(lambda: reading.again("train", rows))
    if needed is None or rows < needed:
        split = survey.split(data.validation_share, data.split_seed)
    if split is None:
        raise survey.too_few()
    return _parts(reading, tables, survey, split, rows)


def first_rows(data: Data) -> int | None:
    """Return the number of rows that a split probably needs for its limits, or None if it needs all rows.

    Some more are read if rounding leaves too few.
    """
    if data.train_rows is None:
        return None
    share = data.validation_share
    return math.ceil(max(data.train_rows / (1 - share), (data.validation_rows or 1) / share))


def _is_enough(split: Split[R], rows: int, data: Data) -> bool:
    has_train = rows - split.validation_rows >= (data.train_rows or 1)
    return has_train and split.validation_rows >= (data.validation_rows or 1)


def _parts(reading: Reading[R, S], tables: Tables, survey: S, split: Split[R], rows: int) -> Selection[R, S]:
    data = reading.data

    def part(channel: Channel) -> Iterator[R]:
        is_validation = split.start()
        return (row for row in reading.again("train", rows) if is_validation(row) == (channel == "validation"))

    train_rows = min(rows - split.validation_rows, data.train_rows or rows)
    validation_rows = min(split.validation_rows, data.validation_rows or rows)
    return Selection(
        tables=tables,
        surveys=(survey,),
        train=Part(rows=train_rows, read=lambda: _exactly(train_rows, part("train"))),
        validation=Part(rows=validation_rows, read=lambda: _exactly(validation_rows, part("validation"))),
    )


def _exactly(count: int, rows: Iterator[R]) -> Iterator[R]:
    """Yield the first `count` rows. Raises InputError if there are fewer than in the first pass."""
    number = 0
    for row in islice(rows, count):
        number += 1
        yield row
    if number < count:
        raise InputError("the data changed while it was staged; repeat the command when nothing writes to it")


def validation_count(rows: int, share: float) -> int:
    """Return the number of validation rows of a class: the rounded share, but at least one row on each side.

    A class of one row has none.
    """
    return min(max(round(rows * share), 1), rows - 1)


def split_by(mask: bytes | bytearray) -> Split[Any]:
    """Return the split of rows in the order of a mask, which has a one for each validation row."""

    def start() -> IsValidation[Any]:
        unread = iter(mask)
        return lambda row: bool(next(unread, 0))

    return Split(validation_rows=mask.count(1), start=start)


def drawn_mask(generator: random.Random, rows: int, count: int) -> bytearray:
    """Return a mask with a one for each row that is set aside: one byte a row. `generator` draws `count` of them."""
    mask = bytearray(rows)
    for row in generator.sample(range(rows), count):
        mask[row] = 1
    return mask
