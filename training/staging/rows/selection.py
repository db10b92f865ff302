"""Select the rows of both channels in a first pass over the data. Later passes read them again, one at a time."""

from __future__ import annotations

import hashlib
import math
import random
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from training.contract.errors import InputError, short_text
from training.job.processes.reporting import BadData
from training.job.tasks import TASKS, Label, Row, Task
from training.staging.rows.labels import (
    NO_CLASSES,
    Classes,
    LabelSurvey,
    check_classes,
    check_rows,
    classes_of,
    label_text,
)
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Location, Table, Tables

Channel = Literal["train", "validation"]

IsValidation = Callable[[Row], bool]
"""Return whether a row is a validation row. Called with each row once, in the order of the data."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Division of the rows of one table into training and validation rows."""

    validation_rows: int
    """Rows that are set aside."""
    start: Callable[[], IsValidation]
    """Return the decision for each row of a new pass."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of one channel."""

    rows: int
    """Number of rows."""
    read: Callable[[], Iterator[Row]]
    """Read the rows again, from the first."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rows of both channels."""

    tables: Tables
    """Tables of the first pass, which are read."""
    surveys: tuple[Survey, ...]
    """Survey of the training table, and of the validation table if there is one."""
    train: Part
    """Rows to train on."""
    validation: Part
    """Rows to evaluate on."""
    classes: Classes = NO_CLASSES
    """Classes of the labels, if the task has any."""

    @property
    def source(self) -> str:
        """Name of the training table, for messages."""
        return self.tables.train.name

    def part(self, channel: Channel) -> Part:
        """Return the rows of a channel."""
        return self.train if channel == "train" else self.validation


def task_rows(task: Task, table: Table, data: Data) -> Iterator[Row]:
    """Check and yield the rows of a table, except those with a label in `data.skip_labels`. Raises InputError."""
    names = data.columns
    skip = frozenset(map(label_text, data.skip_labels or ()))
    label_at = list(task.columns(names)).index(names.label) if skip else 0
    for number, values in table.rows:
        if skip and label_text(values[label_at]) in skip:
            continue
        try:
            row = task.read(number, Location(table, number), values, names)
        except BadData as error:
            raise InputError(str(error)) from error
        if row is not None:
            yield row


class Survey:
    """First pass over the rows of one table. It keeps at most a few bytes of each row."""

    def __init__(self, task: Task, table: Table, data: Data) -> None:
        self._task, self._table, self._data = task, table, data
        self.labels = LabelSurvey(table, data)
        self._strata: dict[Label | None, int] = {}
        self._ids, self._groups = array("Q"), array("Q")

    def add(self, row: Row) -> None:
        """Check and count a row. Raises InputError."""
        for label in row.labels:
            self.labels.add(label, row.number)
        stratum = self._stratum(row)
        self._strata[stratum] = self._strata.get(stratum, 0) + 1
        if row.id:
            self._ids.append(hash_of(row.id))
        if row.group:
            self._groups.append(hash_of(row.group))

    def finish(self, read_again: Callable[[], Iterator[Row]]) -> None:
        """Check all rows together, given a way to read them again.

        Raises InputError for a table without rows, two rows with the same id, and invalid labels.
        """
        if not self._strata:
            skipped = " except those with a label in data.skip_labels" if self._data.skip_labels else ""
            raise InputError(f"{self._table.name} has {self._task.without_rows}{skipped}")
        self.labels.finish()
        self._check_ids(read_again)

    def _check_ids(self, read_again: Callable[[], Iterator[Row]]) -> None:
        import numpy as np

        hashes, counts = np.unique(np.frombuffer(self._ids, np.uint64), return_counts=True)
        repeated = set(hashes[counts > 1].tolist())
        ids: set[str] = set()
        for row in read_again() if repeated else ():
            if hash_of(row.id) not in repeated:
                continue
            if row.id in ids:
                location = self._table.location(row.number)
                raise InputError(f"{location}: the {self._task.row} id {short_text(row.id)} is not unique")
            ids.add(row.id)

    def split(self, share: float, seed: int) -> Split | None:
        """Set a random share of the rows aside: of every class if rows have one, or whole groups if rows have a group.

        Returns None if they are too few.
        """
        generator = random.Random(seed)
        if self._groups:
            return self._split_groups(generator, share)
        masks = {
            stratum: drawn_mask(generator, rows, validation_count(rows, share))
            for stratum, rows in self._strata.items()
        }
        aside = sum(mask.count(1) for mask in masks.values())

        def start() -> IsValidation:
            unread = {stratum: iter(mask) for stratum, mask in masks.items()}
            return lambda row: bool(next(unread.get(self._stratum(row), iter(b"")), 0))

        return Split(validation_rows=aside, start=start) if aside else None

    def _split_groups(self, generator: random.Random, share: float) -> Split | None:
        import numpy as np

        hashes = np.frombuffer(self._groups, np.uint64)
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if len(first) < 2:
            return None
        aside = drawn_mask(generator, len(first), validation_count(len(first), share))
        # The draw numbers the groups in the order of their first row, `np.unique` in the order of their hashes.
        in_order = np.empty(len(first), np.uint8)
        in_order[np.argsort(first)] = np.frombuffer(aside, np.uint8)
        mask = in_order[group].tobytes()

        def start() -> IsValidation:
            unread = iter(mask)
            return lambda row: bool(next(unread, 0))

        return Split(validation_rows=mask.count(1), start=start)

    def _stratum(self, row: Row) -> Label | None:
        return row.labels[0] if self._task.classes == "one" else None

    def too_few(self) -> InputError:
        """Return the error for rows that are too few to set some aside."""
        one = f"{self._task.group} per class" if self._task.classes == "one" else self._task.group
        return InputError(f"{self._table.name} has only one {one}, too few to set validation {self._task.row}s aside")


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """One pass after the other over the tables of a request."""

    task: Task
    open: Callable[[], Tables]
    """Open the data for one pass."""
    data: Data
    """Limits on rows, share and seed of the split."""
    progress: Progress

    def survey(self, table: Table) -> Survey:
        """Return an empty survey of a table."""
        return Survey(self.task, table, self.data)

    def checked(self, table: Table) -> Iterator[Row]:
        """Read the rows of a table for the first time."""
        return self.progress.count(f"checking {Path(table.name).name}", task_rows(self.task, table, self.data))

    def again(self, channel: Channel, rows: int) -> Iterator[Row]:
        """Read the first rows of a table again."""
        return islice(task_rows(self.task, getattr(self.open(), channel), self.data), rows)


def select(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Selection:
    """Return the rows of both channels, with their classes. Raises InputError for any error in the rows."""
    task, data = TASKS[request.task], request.data
    reading = _Reading(task=task, open=open_tables, data=data, progress=progress)
    tables = reading.open()
    if tables.validation is None:
        selection = _split_off(reading, tables)
    else:
        train, train_part = _survey(reading, tables.train, data.train_rows, "train")
        validation, validation_part = _survey(reading, tables.validation, data.validation_rows, "validation")
        surveys = (train, validation)
        selection = Selection(tables=tables, surveys=surveys, train=train_part, validation=validation_part)
    return _with_classes(selection, request) if task.has_classes else selection


def _with_classes(selection: Selection, request: StagingRequest) -> Selection:
    first, *others = (survey.labels for survey in selection.surveys)
    source = selection.source
    classes = classes_of(request.data, selection.tables.label_names, source, first.counts)
    first.check_known(classes)
    check_classes(source, {classes.numbers[label] for label in first.counts}, classes)
    check_rows(selection.train.rows, request, source)
    for survey in others:
        survey.check_known(classes)
    return replace(selection, classes=classes)


def _survey(reading: _Reading, table: Table, limit: int | None, channel: Channel) -> tuple[Survey, Part]:
    """Return the survey of the first `limit` rows of a table, or all, and these rows."""
    survey, rows = reading.survey(table), 0
    for row in islice(reading.checked(table), limit):
        survey.add(row)
        rows += 1
    survey.finish(lambda: reading.again(channel, rows))
    return survey, Part(rows=rows, read=lambda: _exactly(rows, reading.again(channel, rows)))


def _split_off(reading: _Reading, tables: Tables) -> Selection:
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


def _is_enough(split: Split, rows: int, data: Data) -> bool:
    has_train = rows - split.validation_rows >= (data.train_rows or 1)
    return has_train and split.validation_rows >= (data.validation_rows or 1)


def _parts(reading: _Reading, tables: Tables, survey: Survey, split: Split, rows: int) -> Selection:
    data = reading.data

    def part(channel: Channel) -> Iterator[Row]:
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


def _exactly(count: int, rows: Iterator[Row]) -> Iterator[Row]:
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


def drawn_mask(generator: random.Random, rows: int, count: int) -> bytearray:
    """Return a mask with a one for each row that is set aside: one byte a row. `generator` draws `count` of them."""
    mask = bytearray(rows)
    for row in generator.sample(range(rows), count):
        mask[row] = 1
    return mask


def hash_of(*texts: str) -> int:
    """Return a 64-bit hash of texts in this order, the same in every process."""
    digest = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
