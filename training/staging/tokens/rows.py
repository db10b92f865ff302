"""The rows of both channels, and the classes of their labels.

A first pass over the data selects the rows. Later passes read them again, one at a time."""

from __future__ import annotations

import hashlib
import math
import random
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from training.contract.errors import InputError, nearest, short_text
from training.job.processes.reporting import BadData
from training.job.tasks import TASKS, Label, Row, Task
from training.job.tasks.checks import LABEL_RULE
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Location, Table, Tables

MAX_LABELS = 100_000
"""Most different labels. More are no classes, but texts."""
MAX_BAD_ROWS = 1_000
"""Bad rows after which no more are read."""
MAX_PROBLEMS = 5
"""Different problems in a message, and further rows with the same one."""

_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_SIGNED_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OTHER_NUMBER = re.compile(r"[-+]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf)", re.IGNORECASE)
_DECIMAL_WHOLE_NUMBER = re.compile(r"(-?[0-9]{1,18})[.,]0+")


def label_text(value: Any) -> str:
    """Return a label as text, the same text for 4, 4.0, ' 4 ' and '4.0'."""
    return whole_text(str(int(value) if isinstance(value, float) and value.is_integer() else value).strip())


def whole_text(text: str) -> str:
    """Return a whole number that is written as a decimal number, '1.0' or '1,0', as '1'; other text unchanged."""
    match = _DECIMAL_WHOLE_NUMBER.fullmatch(text)
    return text if match is None else match[1]


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes of the labels, and every spelling of their labels in the data."""

    names: tuple[str, ...]
    """Names in the order of the class numbers."""
    numbers: Mapping[Label, int]
    """Class number by label."""
    label_source: str
    """Field or data that defines the labels, for messages."""
    known_labels: Sequence[str]
    """Labels as defined there."""


NO_CLASSES = Classes(names=(), numbers={}, label_source="", known_labels=())
"""Classes of a task that has none."""


class LabelSurvey:
    """Labels of one table: how often each occurs, and where first."""

    def __init__(self, table: Table, data: Data) -> None:
        self._table, self._data = table, data
        self.counts: dict[Label, int] = {}
        """Rows of each label, in the order of first occurrence."""
        self._first_numbers: dict[Label, int] = {}

    def add(self, label: Label, number: int) -> None:
        """Count a label of a row. Raises InputError if its type differs from the first, or for a negative number."""
        if label in self.counts:
            self.counts[label] += 1
            return
        if len(self.counts) == MAX_LABELS:
            raise InputError(
                f"{self._table.location(number)}: column {self._data.columns.label!r} has more than {MAX_LABELS:,} "
                "different labels, so they cannot be classes; correct data.columns.label"
            )
        self.counts[label] = 1
        self._first_numbers[label] = number
        if self._data.label_map is None:  # A label map may mix words and numbers.
            self._check_type(label)

    def finish(self) -> None:
        """Raise InputError if all labels are numbers and one is not a whole number."""
        numbers = self._data.label_map is None and all(_is_other_number(label) for label in self.counts)
        if numbers and (label := next((each for each in self.counts if not _is_whole(each)), None)) is not None:
            raise self._invalid_label(label)

    def check_known(self, classes: Classes) -> None:
        """Raise InputError for all labels that have no class."""
        if unknown := [label for label in self.counts if label not in classes.numbers]:
            others = ", ".join(f"{short_text(each)} ({self._location(each)})" for each in unknown[1 : MAX_PROBLEMS + 1])
            more = f" and {len(unknown) - MAX_PROBLEMS - 1:,} more" if len(unknown) > MAX_PROBLEMS + 1 else ""
            raise unknown_label(self._location(unknown[0]), unknown[0], classes, f"{others}{more}")

    def _location(self, label: Label) -> str:
        return self._table.location(self._first_numbers[label])

    def _check_type(self, label: Label) -> None:
        if isinstance(label, int) and label < 0:
            raise self._invalid_label(label)
        first = next(iter(self.counts))
        if type(label) is not type(first):
            described = f"{short_text(first)} ({self._location(first)})"
            raise InputError(
                f"{self._location(label)}: label {short_text(label)} has a different type than {described}"
            )

    def _invalid_label(self, label: Label) -> InputError:
        return InputError(f"{self._location(label)}: label {short_text(label)} {LABEL_RULE}")


def _is_other_number(label: Label) -> bool:
    return isinstance(label, str) and _OTHER_NUMBER.fullmatch(label) is not None


def _is_whole(label: Label) -> bool:
    return _WHOLE_NUMBER.fullmatch(whole_text(str(label))) is not None


def classes_of(data: Data, source_names: tuple[str, ...] | None, labels: Collection[Label]) -> Classes:
    """Return the classes that the request defines, else the source's, else the classes of the training rows.

    `labels` are the labels of the training rows that were read.
    """
    if data.label_map is not None:
        return _classes_of_map(data.label_map, source_names or ())
    if data.labels is not None:
        return _classes_named(data.labels, _numbers_by_name(data.labels), "data.labels")
    if source_names is not None:
        # A number in the source is an index into its label names, even if these names are numbers themselves.
        names: dict[Label, int] = {name: number for number, name in enumerate(source_names)}
        return _classes_named(source_names, _numbers_by_index(source_names) | names, "the data set's own labels")
    row_names = names_in_rows(labels)
    numbers = _numbers_by_name(row_names, allow_indices=False)
    numbers |= {
        label: numbers[whole_text(label)] for label in labels if isinstance(label, str) and label not in numbers
    }
    return _classes_named(row_names, numbers, "the training rows")


def names_in_rows(labels: Collection[Label]) -> tuple[str, ...]:
    """Return the label names in the training rows: numbers in numeric order, words in alphabetical order."""
    if all(map(_is_whole, labels)):
        return tuple(sorted({whole_text(str(label)) for label in labels}, key=lambda name: (int(name), name)))
    return tuple(sorted(str(label) for label in labels))


def check_classes(source: str, numbers: Collection[int], classes: Classes) -> None:
    """Raise InputError if the training rows have only one class. `numbers` are the classes of its rows."""
    if len(numbers) < 2:
        listed = ", ".join(short_text(classes.names[number]) for number in numbers)
        raise InputError(f"{source} has only one class, {listed}; at least two are required")


def _classes_of_map(label_map: Mapping[str, Sequence[Label]], source_names: Sequence[str]) -> Classes:
    """Return the classes of a label map. The map may use the source's label names instead of its numbers."""
    listed: dict[Label, int] = {str(value): at for at, values in enumerate(label_map.values()) for value in values}
    numbers = {spelling: number for value, number in listed.items() for spelling in _spellings(whole_text(str(value)))}
    numbers |= listed
    for index, name in enumerate(source_names):
        if name in numbers:
            numbers[index] = numbers[name]
    known_labels = [str(value) for values in label_map.values() for value in values]
    return Classes(names=tuple(label_map), numbers=numbers, label_source="data.label_map", known_labels=known_labels)


def _classes_named(names: tuple[str, ...], numbers: Mapping[Label, int], label_source: str) -> Classes:
    return Classes(names=names, numbers=numbers, label_source=label_source, known_labels=names)


def _numbers_by_name(names: Sequence[str], *, allow_indices: bool = True) -> dict[Label, int]:
    """Return the class number of each spelling of a class: its name, and its index if the names are not numbers."""
    numbers: dict[Label, int] = {name: number for number, name in enumerate(names)}
    if all(map(_is_whole, names)):
        # With names such as 1 to 5 (stars), a number in the data is a name, not an index from 0 to 4.
        spelled = {spelling: number for number, name in enumerate(names) for spelling in _spellings(whole_text(name))}
        return spelled | numbers
    return _numbers_by_index(names) | numbers if allow_indices else numbers


def _numbers_by_index(names: Sequence[str]) -> dict[Label, int]:
    return {spelling: number for number in range(len(names)) for spelling in _spellings(str(number))}


def _spellings(text: str) -> tuple[Label, ...]:
    """Return a label in all its spellings: a whole number is text, a number, or text as pandas writes floats."""
    return (text, int(text), f"{text}.0", f"{text},0") if _SIGNED_NUMBER.fullmatch(text) else (text,)


def unknown_label(location: str, label: Label, classes: Classes, others: str = "") -> InputError:
    """Return the error for a label without a class, and for `others`."""
    known = classes.known_labels
    listed = ", ".join(short_text(name) for name in known[:20]) + (" ..." if len(known) > 20 else "")
    hint = nearest(str(label), known)
    more = f" Nor are {others}." if others else ""
    return InputError(f"{location}: label {short_text(label)} is not in {classes.label_source} ({listed}).{hint}{more}")


def check_rows(train_rows: int, request: StagingRequest, source: str) -> None:
    """Raise InputError if the training rows do not fill one global batch."""
    if train_rows < request.min_train_rows:
        raise InputError(
            f"the global batch size is {request.min_train_rows}, but {source} has only {train_rows} training "
            f"rows; reduce batch_size or use more training rows"
        )


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
    train: Part
    """Rows to train on."""
    validation: Part
    """Rows to evaluate on."""
    classes: Classes = NO_CLASSES
    """Classes of the labels, if the task has any."""

    @property
    def source(self) -> str:
        return self.tables.train.name


class BadRows:
    """The bad rows of a table, for one message about all of them."""

    def __init__(self, table: Table) -> None:
        self._table, self._count = table, 0
        self._locations: dict[str, list[str]] = {}
        """Locations of the rows with the same problem, by the problem."""

    def add(self, number: int, error: BadData) -> None:
        """Note the problem of a row. Raises InputError if there are too many to read on."""
        location = self._table.location(number)
        self._count += 1
        self._locations.setdefault(str(error).removeprefix(location), []).append(location)
        if self._count == MAX_BAD_ROWS:
            self.check()

    def check(self) -> None:
        """Raise InputError if there are bad rows."""
        problems = [f"{first}{problem}{_also(first, others)}" for problem, (first, *others) in self._locations.items()]
        if len(problems) > MAX_PROBLEMS:
            problems[MAX_PROBLEMS:] = [f"and {len(problems) - MAX_PROBLEMS:,} more problems"]
        if self._count > 1:
            at_least = " or more" if self._count == MAX_BAD_ROWS else ""
            problems[0] = f"{self._count:,}{at_least} bad rows: {problems[0]}"
        if problems:
            raise InputError("; ".join(problems))


def _also(first: str, others: Sequence[str]) -> str:
    """Return the locations of other rows with the problem of the first, in brackets, without what they share."""
    place = first.rpartition(" ")[0]
    listed = [each.removeprefix(f"{place} ") for each in others[:MAX_PROBLEMS]]
    more = f" and {len(others) - len(listed):,} more" if len(others) > len(listed) else ""
    return f" (also {', '.join(listed)}{more})" if listed else ""


def task_rows(task: Task, table: Table, data: Data, bad: BadRows | None = None) -> Iterator[Row]:
    """Check and yield the rows of a table, except those with a label in `data.skip_labels`.

    `bad` collects the bad rows; without it, the first raises InputError.
    """
    names = data.columns
    skip = frozenset(map(label_text, data.skip_labels or ()))
    label_at = list(task.columns(names)).index(names.label) if skip and task.classes == "one" else None
    for number, values in table.rows:
        if label_at is not None and label_text(values[label_at]) in skip:
            continue
        try:
            row = task.read(number, Location(table, number), values, names)
        except BadData as error:
            if bad is None:
                raise InputError(str(error)) from error
            bad.add(number, error)
            continue
        if row is not None and skip.isdisjoint(map(label_text, row.labels)):
            yield row


class Survey:
    """First pass over the rows of one table. It keeps hashes of ids and groups, and nothing else of each row."""

    def __init__(self, task: Task, table: Table, data: Data) -> None:
        self._task, self._table, self._data = task, table, data
        self.labels = LabelSurvey(table, data)
        self._strata: dict[Label | None, int] = {}
        self._ids: set[int] = set()
        self._groups = array("Q")

    def add(self, row: Row) -> None:
        """Check and count a row. Raises InputError for a label of another type, and for the id of another row."""
        for label in row.labels:
            self.labels.add(label, row.number)
        stratum = self._stratum(row)
        self._strata[stratum] = self._strata.get(stratum, 0) + 1
        if row.id:
            if (key := hash_of(row.id)) in self._ids:
                location = self._table.location(row.number)
                raise InputError(f"{location}: the {self._task.row} id {short_text(row.id)} is not unique")
            self._ids.add(key)
        if row.group:
            self._groups.append(hash_of(row.group))

    def finish(self) -> None:
        """Check all rows together. Raises InputError for a table without rows, and for invalid labels."""
        if not self._strata:
            skipped = " except those with a label in data.skip_labels" if self._data.skip_labels else ""
            raise InputError(f"{self._table.name} has {self._task.without_rows}{skipped}")
        self.labels.finish()

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

    def checked(self, table: Table, bad: BadRows) -> Iterator[Row]:
        """Read the rows of a table for the first time."""
        return self.progress.count(f"checking {Path(table.name).name}", task_rows(self.task, table, self.data, bad))

    def again(self, channel: Channel, rows: int) -> Iterator[Row]:
        """Read the first rows of a table again."""
        return islice(task_rows(self.task, getattr(self.open(), channel), self.data), rows)


def select(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Selection:
    """Return the rows of both channels, with their classes. Raises InputError for any error in the rows."""
    task, data = TASKS[request.task], request.data
    reading = _Reading(task=task, open=open_tables, data=data, progress=progress)
    tables, classes = reading.open(), NO_CLASSES
    source = tables.train.name
    if tables.validation is None:
        survey, train, validation = _split_off(reading, tables.train)
        surveys = [survey]
    else:
        first, train = _survey(reading, tables.train, data.train_rows, "train")
        second, validation = _survey(reading, tables.validation, data.validation_rows, "validation")
        surveys = [first, second]
    if task.has_classes:
        labels, *others = (survey.labels for survey in surveys)
        classes = classes_of(data, data.columns.labels or tables.label_names, labels.counts)
        labels.check_known(classes)
        try:
            task.check_classes(classes.names)
        except BadData as error:
            raise InputError(f"{source}: {error}") from error
        check_classes(source, {classes.numbers[label] for label in labels.counts}, classes)
        check_rows(train.rows, request, source)
        for each in others:
            each.check_known(classes)
    return Selection(tables=tables, train=train, validation=validation, classes=classes)


def _survey(reading: _Reading, table: Table, limit: int | None, channel: Channel) -> tuple[Survey, Part]:
    """Return the survey of the first `limit` rows of a table, or all, and these rows."""
    survey, bad, rows = Survey(reading.task, table, reading.data), BadRows(table), 0
    for row in islice(reading.checked(table, bad), limit):
        survey.add(row)
        rows += 1
    bad.check()
    survey.finish()
    return survey, Part(rows=rows, read=lambda: _exactly(rows, reading.again(channel, rows)))


def _split_off(reading: _Reading, table: Table) -> tuple[Survey, Part, Part]:
    """Set validation rows aside. Limits apply after the split: each part keeps its first rows.

    With a limit on training rows, only the first rows of the table are read and split: as many as both parts need.
    """
    data, survey, bad = reading.data, Survey(reading.task, table, reading.data), BadRows(table)
    rows, needed, split = 0, first_rows(data), None
    unread = reading.checked(table, bad)
    while True:
        for row in islice(unread, None if needed is None else needed - rows):
            survey.add(row)
            rows += 1
        if needed is None or rows < needed:
            break
        split = survey.split(data.validation_share, data.split_seed)
        aside = split.validation_rows if split is not None else 0
        if aside >= (data.validation_rows or 1) and rows - aside >= (data.train_rows or 1):
            break
        needed += max(needed // 10, 1)
    bad.check()
    survey.finish()
    if needed is None or rows < needed:
        split = survey.split(data.validation_share, data.split_seed)
    if split is None:
        raise survey.too_few()

    def part(count: int, *, is_validation: bool) -> Part:
        def read() -> Iterator[Row]:
            belongs = split.start()
            return _exactly(count, (row for row in reading.again("train", rows) if belongs(row) == is_validation))

        return Part(rows=count, read=read)

    aside = split.validation_rows
    train = part(min(rows - aside, data.train_rows or rows), is_validation=False)
    return survey, train, part(min(aside, data.validation_rows or rows), is_validation=True)


def first_rows(data: Data) -> int | None:
    """Return the number of rows that a split probably needs for its limits, or None if it needs all rows.

    Some more are read if rounding leaves too few.
    """
    if data.train_rows is None:
        return None
    share = data.validation_share
    return math.ceil(max(data.train_rows / (1 - share), (data.validation_rows or 1) / share))


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
