"""Classes of labels: every label has the number of its class."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.contract.errors import InputError, nearest, short_text
from training.job.tasks import Label
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Table

MAX_LABEL_CHARACTERS = 20_000_000
LABEL_CHARACTERS = 100
"""Counted for each different label in addition to its text."""

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
        self._characters = 0
        self.counts: dict[Label, int] = {}
        """Rows of each label, in the order of first occurrence."""
        self._first_numbers: dict[Label, int] = {}

    def add(self, label: Label, number: int) -> None:
        """Count a label of a row. Raises InputError if its type differs from the first, or for a negative number."""
        if label in self.counts:
            self.counts[label] += 1
            return
        self._check_size(label, number)
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
        """Raise InputError for the first row whose label belongs to no class."""
        for label in self.counts:
            if label not in classes.numbers:
                raise unknown_label(self._location(label), label, classes)

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

    def _check_size(self, label: Label, number: int) -> None:
        self._characters += LABEL_CHARACTERS + (len(label) if isinstance(label, str) else 0)
        if self._characters > MAX_LABEL_CHARACTERS:
            raise InputError(
                f"{self._table.location(number)}: column {self._data.columns.label!r} has so many different "
                f"labels ({len(self.counts):,} up to here) that they cannot be classes; correct data.columns.label"
            )

    def _invalid_label(self, label: Label) -> InputError:
        return InputError(
            f"{self._location(label)}: label {short_text(label)} must be a word or a whole number of at least 0, such "
            "as 1 or 1.0"
        )


def _is_other_number(label: Label) -> bool:
    return isinstance(label, str) and _OTHER_NUMBER.fullmatch(label) is not None


def _is_whole(label: Label) -> bool:
    return _WHOLE_NUMBER.fullmatch(whole_text(str(label))) is not None


def classes_of(data: Data, source_names: tuple[str, ...] | None, source: str, labels: Collection[Label]) -> Classes:
    """Return the classes that the request defines, else the source's, else the classes of the training rows.

    `labels` are the labels of the rows that were read of the table `source`.
    """
    if data.label_map is not None:
        return _classes_of_map(data.label_map, source_names or ())
    if data.labels is not None:
        return _classes_named(data.labels, _numbers_by_name(data.labels), "data.labels")
    if source_names is not None:
        # A number in the source is an index into its label names, even if these names are numbers themselves.
        names: dict[Label, int] = {name: number for number, name in enumerate(source_names)}
        return _classes_named(source_names, _numbers_by_index(source_names) | names, "the data set's own labels")
    row_names = names_in_rows(source, labels)
    numbers = _numbers_by_name(row_names, allow_indices=False)
    numbers |= {
        label: numbers[whole_text(label)] for label in labels if isinstance(label, str) and label not in numbers
    }
    return _classes_named(row_names, numbers, "the training rows")


def names_in_rows(source: str, labels: Collection[Label]) -> tuple[str, ...]:
    """Return the label names in the training rows: numbers in numeric order, words in alphabetical order."""
    if len(labels) < 2:
        raise one_class(source, *labels)
    if all(map(_is_whole, labels)):
        return tuple(sorted({whole_text(str(label)) for label in labels}, key=lambda name: (int(name), name)))
    return tuple(sorted(str(label) for label in labels))


def check_classes(source: str, numbers: Collection[int], classes: Classes) -> None:
    """Raise InputError if the training rows have only one class. `numbers` are the classes of its rows."""
    if len(numbers) < 2:
        raise one_class(source, *(classes.names[number] for number in numbers))


def one_class(source: str, name: Label) -> InputError:
    """Return the error for training rows of one class."""
    return InputError(f"{source} has only one class, {short_text(name)}; at least two are required")


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


def unknown_label(location: str, label: Label, classes: Classes) -> InputError:
    """Return the error for a label that belongs to no class."""
    known = classes.known_labels
    listed = ", ".join(short_text(name) for name in known[:20]) + (" ..." if len(known) > 20 else "")
    hint = nearest(str(label), known)
    return InputError(f"{location}: label {short_text(label)} is not in {classes.label_source} ({listed}).{hint}")


def check_rows(train_rows: int, request: StagingRequest, source: str) -> None:
    """Raise InputError if the training rows do not fill one global batch."""
    if train_rows < request.min_train_rows:
        raise InputError(
            f"the global batch size is {request.min_train_rows}, but {source} has only {train_rows} training "
            f"rows; reduce batch_size or use more training rows"
        )
