"""The rows of both channels, and the classes of their labels.

A first pass over the data selects the rows. Later passes read them again, one at a time."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from training.contract.errors import InputError, each_result, nearest, short_text
from training.job.processes.reporting import BadData
from training.job.tasks import TASKS, Label, Row, Task
from training.job.tasks.checks import FOR_NUMBERS, MissingValue, plain_label
from training.staging.formats.files import MissingColumn
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Location, Table, Tables

if TYPE_CHECKING:
    import numpy as np

MAX_LABELS = 100_000
"""Most different labels. More are no classes, but texts."""
MAX_BAD_ROWS = 1_000
"""Bad rows after which no more are read."""
MAX_PROBLEMS = 5
"""Different problems in a message, and further rows with the same one."""
MAX_CLASSES_OF_MAP = 50
"""Classes up to which a message has a label map."""

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][-+]?[0-9]+)?")
_DECIMAL_WHOLE_NUMBER = re.compile(r"(-?[0-9]{1,18})[.,]0+")


def label_text(value: Any) -> str:
    """Return a label as text, the same text for 4, 4.0, ' 4 ' and '4.0'."""
    return whole_text(str(plain_label(value)).strip())


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


ROWS = "the training rows"
"""Source of the labels that no field and no data set names."""
NO_CLASSES = Classes(names=(), numbers={}, label_source="", known_labels=())
"""Classes of a task that has none."""


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
    numbers = _spelled(row_names)
    return _classes_named(row_names, numbers | {label: numbers[whole_text(str(label))] for label in labels}, ROWS)


def names_in_rows(labels: Collection[Label]) -> tuple[str, ...]:
    """Return the label names in the training rows: numbers in numeric order, then words in alphabetical order."""
    names = {whole_text(str(label)) for label in labels}
    return tuple(sorted(names, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name)))


def check_classes(source: str, numbers: Collection[int], classes: Classes) -> None:
    """Raise InputError if the training rows have only one class. `numbers` are the classes of its rows."""
    if len(numbers) < 2:
        listed = ", ".join(short_text(classes.names[number]) for number in numbers)
        raise InputError(f"{source} has only one class, {listed}; at least two are required")


def _classes_of_map(label_map: Mapping[str, Sequence[Label]], source_names: Sequence[str]) -> Classes:
    """Return the classes of a label map. The map may use the source's label names instead of its numbers."""
    classes = {str(value): at for at, values in enumerate(label_map.values()) for value in values}
    listed = list(classes.values())
    numbers = {label: listed[at] for label, at in _spelled(list(classes)).items()}
    for index, name in enumerate(source_names):
        if name in numbers:
            numbers[index] = numbers[name]
    known_labels = [str(value) for values in label_map.values() for value in values]
    return Classes(names=tuple(label_map), numbers=numbers, label_source="data.label_map", known_labels=known_labels)


def _classes_named(names: tuple[str, ...], numbers: Mapping[Label, int], label_source: str) -> Classes:
    return Classes(names=names, numbers=numbers, label_source=label_source, known_labels=names)


def _numbers_by_name(names: Sequence[str]) -> dict[Label, int]:
    """Return the class number of each spelling of a class: its name, and its index if the names are not numbers."""
    # With names such as 1 to 5 (stars), a number in the data is a name, not an index from 0 to 4.
    return _spelled(names) if all(map(_is_whole, names)) else _numbers_by_index(names) | _spelled(names)


def _numbers_by_index(names: Sequence[str]) -> dict[Label, int]:
    return _spelled([str(number) for number in range(len(names))])


def _spelled(names: Sequence[str]) -> dict[Label, int]:
    """Return the index of each name in all its spellings. A name as it is counts before a spelling of another."""
    spelled = {spelling: at for at, name in enumerate(names) for spelling in _spellings(whole_text(name))}
    return {**spelled, **{name: at for at, name in enumerate(names)}}


def _spellings(text: str) -> tuple[Label, ...]:
    """Return a label in all its spellings: a whole number is text, a number, or text as pandas writes floats."""
    if text in ("true", "false"):
        return (text, text.title(), text.upper())
    return (text, int(text), f"{text}.0", f"{text},0") if _is_whole(text) else (text,)


def plain_name(name: str) -> str:
    """Return a label without blanks and differences of case."""
    return "".join(name.casefold().split())


def joining_map(counts: Mapping[str, int]) -> str:
    """Return a label map, after a colon, that joins labels which differ only in case or blanks; empty for too many.

    The commonest of them names the class.
    """
    classes: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: -counts[name]):
        classes.setdefault(plain_name(name), []).append(name)
    return map_text({names[0]: names for names in sorted(classes.values())})


def map_text(classes: Mapping[str, Sequence[str]]) -> str:
    """Return a label map, after a colon, as YAML and the command line read it; empty for too many classes."""
    return f": {json.dumps(classes, ensure_ascii=False)}" if len(classes) <= MAX_CLASSES_OF_MAP else ""


def check_rows(train_rows: int, request: StagingRequest, source: str) -> None:
    """Raise InputError if the training rows do not fill one global batch."""
    if train_rows < request.min_train_rows:
        raise InputError(
            f"the global batch size is {request.min_train_rows}, but {source} has only {train_rows} training "
            f"rows; reduce batch_size or use more training rows"
        )


Channel = Literal["train", "validation"]


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
    skipped_rows: int = 0
    """Rows with an empty or null value that were left out."""
    contradictory_texts: int = 0
    """Training texts that occur with several classes."""

    @property
    def source(self) -> str:
        return self.tables.train.name


class BadRows:
    """The bad rows of a table, for one message about all of them."""

    def __init__(self, table: Table, *, skips: bool = False) -> None:
        self._table, self.count = table, 0
        self._skips, self._missing = skips, 0
        self._locations: dict[str, list[str]] = {}
        """Locations of the rows with the same problem, by the problem."""

    @property
    def skipped(self) -> int:
        """Rows with an empty or null value that were left out."""
        return self._missing if self._skips else 0

    def add(self, number: int, error: Exception) -> None:
        """Note the problem of a row. Raises InputError if there are too many to read on."""
        is_missing = isinstance(error, MissingValue | MissingColumn)
        self._missing += is_missing
        if is_missing and self._skips:
            return
        location, problem = self._table.location(number), str(error)
        problem = problem.removeprefix(location) if problem.startswith(location) else f": {problem}"
        problem = problem.removesuffix(".")
        self.count += 1
        self._locations.setdefault(problem, []).append(location)
        if self.count == MAX_BAD_ROWS:
            self.check()

    def check(self) -> None:
        """Raise InputError if there are bad rows."""
        problems = [f"{first}{problem}{_also(first, others)}" for problem, (first, *others) in self._locations.items()]
        if len(problems) > MAX_PROBLEMS:
            problems[MAX_PROBLEMS:] = [f"and {len(problems) - MAX_PROBLEMS:,} more problems"]
        if self.count > 1:
            at_least = " or more" if self.count == MAX_BAD_ROWS else ""
            problems[0] = f"{self.count:,}{at_least} bad rows: {problems[0]}"
        if self._missing and not self._skips:
            missing = f"the rows with an empty or null value ({self._missing:,})"
            problems.append(f"data.skip_bad_rows: true leaves out {missing}")
        if self.count:
            raise InputError("; ".join(problems))


def _also(first: str, others: Sequence[str]) -> str:
    """Return the locations of other rows with the problem of the first, in brackets, without what they share."""
    place = first.rpartition(" ")[0]
    listed = [each.removeprefix(f"{place} ") for each in others[:MAX_PROBLEMS]]
    more = f" and {len(others) - len(listed):,} more" if len(others) > len(listed) else ""
    return f" (also {', '.join(listed)}{more})" if listed else ""


def task_rows(task: Task, table: Table, data: Data, bad: BadRows) -> Iterator[Row]:
    """Check and yield the rows of a table, except those with a label in `data.skip_labels`. `bad` gets the bad ones."""
    names = data.columns
    skip = frozenset(map(label_text, data.skip_labels or ()))
    label_at = list(task.columns(names)).index(names.label) if skip and task.classes == "one" else None
    for number, values in table.rows:
        if isinstance(values, InputError):
            if number == 1 and not data.skip_bad_rows:  # All rows are probably like the first.
                raise values
            bad.add(number, values)
            continue
        if label_at is not None and label_text(values[label_at]) in skip:
            continue
        try:
            row = task.read(number, Location(table, number), values, names)
        except BadData as error:
            bad.add(number, error)
            continue
        if row is not None and skip.isdisjoint(map(label_text, row.labels)):
            yield row


class Survey:
    """First pass over the rows of one table. It keeps hashes of ids and groups, and nothing else of each row."""

    def __init__(self, task: Task, table: Table, data: Data) -> None:
        self._task, self._table, self._data = task, table, data
        self.bad = BadRows(table, skips=data.skip_bad_rows)
        self.labels: dict[Label, int] = {}
        """Number of the first row of each label."""
        self._strata: dict[Label | None, int] = {}
        """Numbers of the strata: labels, or one for all rows."""
        self._ids: set[int] = set()
        self._row_strata, self._groups, self._has_groups = array("I"), array("Q"), False

    def add(self, row: Row) -> None:
        """Check and count a row. Raises InputError for too many different labels."""
        for label in row.labels:
            if len(self.labels) == MAX_LABELS and label not in self.labels:
                raise InputError(
                    f"{self._table.location(row.number)}: column {self._data.columns.label!r} has more than "
                    f"{MAX_LABELS:,} different labels, so they cannot be classes; correct data.columns.label"
                )
            self.labels.setdefault(label, row.number)
        stratum = row.labels[0] if self._task.classes == "one" else None
        self._row_strata.append(self._strata.setdefault(stratum, len(self._strata)))
        if row.id:
            if (key := hash_of(row.id)) in self._ids:
                self.bad.add(row.number, BadData(f"the {self._task.row} id {short_text(row.id)} is not unique"))
            self._ids.add(key)
        self._groups.append(hash_of(row.group) if row.group else hash_of(*row.texts))
        self._has_groups |= bool(row.group)

    def check_numbers(self) -> None:
        """Raise InputError if all labels are numbers, some with decimals, and no field says that they are classes."""
        decimal = next((label for label in self.labels if not _is_whole(label)), None)
        is_named = self._data.label_map or self._data.labels
        if decimal is None or is_named or not all(_NUMBER.fullmatch(str(label)) for label in self.labels):
            return
        names = sorted(
            {whole_text(str(label)) for label in self.labels}, key=lambda name: float(name.replace(",", "."))
        )
        classes = map_text({name: [name] for name in names})
        raise InputError(
            f"{self._location(decimal)}: label {short_text(decimal)} is a number with decimals: {FOR_NUMBERS}"
            + (f"; to use them as classes, set data.label_map{classes}" if classes else "")
        )

    def check_known(self, classes: Classes) -> None:
        """Raise InputError for all labels that have no class."""
        unknown, known = [label for label in self.labels if label not in classes.numbers], classes.known_labels
        if not unknown:
            return
        others = [f"{short_text(each)} ({self._location(each)})" for each in unknown[1 : MAX_PROBLEMS + 1]]
        first = f"{self._location(unknown[0])}: label {short_text(unknown[0])}"
        listed = ", ".join(short_text(name) for name in known[:20]) + (" ..." if len(known) > 20 else "")
        message = f"{first} is not in {classes.label_source} ({listed}).{nearest(str(unknown[0]), known)}"
        if others:
            more = f" and {len(unknown) - MAX_PROBLEMS - 1:,} more" if len(unknown) > MAX_PROBLEMS + 1 else ""
            message += f" Nor are {', '.join(others)}{more}."
        similar = set(map(plain_name, known)) if classes.label_source == ROWS else set()
        if spellings := [each for each in map(str, unknown) if plain_name(each) in similar]:
            joined = joining_map(dict.fromkeys([*known, *spellings], 0))
            message += f" To join labels that differ only in case or blanks, set data.label_map{joined}"
        raise InputError(message)

    def _location(self, label: Label) -> str:
        return self._table.location(self.labels[label])

    def finish(self) -> None:
        """Raise InputError for a table without rows."""
        if not self._strata and not self.bad.count:
            skips = {"data.skip_labels": self._data.skip_labels, "data.skip_bad_rows": self.bad.skipped}
            fields = " and ".join(name for name, value in skips.items() if value)
            skipped = f" except those that {fields} leaves out" if fields else ""
            raise InputError(f"{self._table.name} has {self._task.without_rows}{skipped}")

    def split(self, share: float, seed: int) -> bytes:
        """Return a mask with a one for each row to set aside: a random share of the groups, of every class if any.

        Rows of equal texts are a group, unless the task has its own groups, or each class has only one text. The mask
        is all zeros if there are too few groups.
        """
        import numpy as np

        groups = np.frombuffer(self._groups, np.uint64)
        mask = self._drawn(random.Random(seed), groups, share)
        if 1 in mask or self._has_groups:
            return mask
        return self._drawn(random.Random(seed), np.arange(len(groups)), share)

    def _drawn(self, generator: random.Random, groups: np.ndarray, share: float) -> bytes:
        import numpy as np

        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        # The draw takes the strata, and their groups, in the order of their first rows.
        strata = np.frombuffer(self._row_strata, np.uint32)[first]
        order, aside = np.lexsort((first, strata)), np.zeros(len(first), np.uint8)
        for members in np.split(order, np.flatnonzero(np.diff(strata[order])) + 1):
            count = validation_count(len(members), share) if len(members) else 0
            aside[members[generator.sample(range(len(members)), count)]] = 1
        return aside[group].tobytes()

    def contradictory_texts(self, classes: Classes) -> int:
        """Return the number of texts that occur with several classes."""
        import numpy as np

        if self._task.classes != "one" or not self._strata:
            return 0
        numbers = np.array([classes.numbers[label] for label in self._strata if label is not None])
        texts, own = np.frombuffer(self._groups, np.uint64), numbers[np.frombuffer(self._row_strata, np.uint32)]
        order = np.lexsort((own, texts))
        texts, own = texts[order], own[order]
        return len(np.unique(texts[1:][(texts[1:] == texts[:-1]) & (own[1:] != own[:-1])]))

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
        """Read the first good rows of a table again."""
        table = getattr(self.open(), channel)
        return islice(task_rows(self.task, table, self.data, BadRows(table, skips=self.data.skip_bad_rows)), rows)


def select(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Selection:
    """Return the rows of both channels, with their classes. Raises InputError for any error in the rows."""
    task, data = TASKS[request.task], request.data
    reading = _Reading(task=task, open=open_tables, data=data, progress=progress)
    tables, classes = reading.open(), NO_CLASSES
    source = tables.train.name
    if (own := tables.validation) is None:
        survey, train, validation = _split_off(reading, tables.train)
        surveys = [survey]
    else:
        (first, train), (second, validation) = each_result(
            [
                lambda: _survey(reading, tables.train, data.train_rows, "train"),
                lambda: _survey(reading, own, data.validation_rows, "validation"),
            ]
        )
        surveys = [first, second]
    checks = [survey.bad.check for survey in surveys]
    if task.has_classes:
        labels = surveys[0].labels
        classes = classes_of(data, data.columns.labels or tables.label_names, labels)
        checks += [surveys[0].check_numbers, *(partial(survey.check_known, classes) for survey in surveys)]
    each_result(checks)
    if task.has_classes:
        try:
            task.check_classes(classes.names)
        except BadData as error:
            raise InputError(f"{source}: {error}") from error
        check_classes(source, {classes.numbers[label] for label in labels}, classes)
        check_rows(train.rows, request, source)
    return Selection(
        tables=tables,
        train=train,
        validation=validation,
        classes=classes,
        skipped_rows=sum(survey.bad.skipped for survey in surveys),
        contradictory_texts=surveys[0].contradictory_texts(classes),
    )


def _survey(reading: _Reading, table: Table, limit: int | None, channel: Channel) -> tuple[Survey, Part]:
    """Return the survey of the first `limit` rows of a table, or all, and these rows."""
    survey, rows = Survey(reading.task, table, reading.data), 0
    for row in islice(reading.checked(table, survey.bad), limit):
        survey.add(row)
        rows += 1
    survey.finish()
    return survey, Part(rows=rows, read=lambda: _exactly(rows, reading.again(channel, rows)))


def _split_off(reading: _Reading, table: Table) -> tuple[Survey, Part, Part]:
    """Set validation rows aside. Limits apply after the split: each part keeps its first rows.

    With a limit on training rows, only the first rows of the table are read and split: as many as both parts need.
    """
    data, survey = reading.data, Survey(reading.task, table, reading.data)
    rows, needed, mask = 0, first_rows(data), b""
    unread = reading.checked(table, survey.bad)
    while True:
        for row in islice(unread, None if needed is None else needed - rows):
            survey.add(row)
            rows += 1
        if needed is None or rows < needed:
            break
        mask = survey.split(data.validation_share, data.split_seed)
        aside = mask.count(1)
        if aside >= (data.validation_rows or 1) and rows - aside >= (data.train_rows or 1):
            break
        needed += max(needed // 10, 1)
    survey.finish()
    if needed is None or rows < needed:
        mask = survey.split(data.validation_share, data.split_seed)
    if 1 not in mask:
        each_result([survey.bad.check, survey.check_numbers])
        raise survey.too_few()

    def part(count: int, *, is_validation: bool) -> Part:
        def read() -> Iterator[Row]:
            sides = zip(reading.again("train", rows), mask, strict=False)
            return _exactly(count, (row for row, side in sides if side == is_validation))

        return Part(rows=count, read=read)

    aside = mask.count(1)
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


def hash_of(*texts: str) -> int:
    """Return a 64-bit hash of texts in this order, the same in every process."""
    digest = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
