"""Class numbers of the labels in the data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.contract.errors import InputError, nearest
from training.staging.rows.examples import Examples, Label, short_text
from training.staging.sources.request import Data

_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_SIGNED_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OTHER_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes of a classification, and every spelling of their labels in the data."""

    names: tuple[str, ...]
    """Names in the order of the class numbers."""
    numbers: Mapping[Label, int]
    """Class number by label."""
    label_source: str
    """Field or data that defines the labels, for messages."""
    known_labels: Sequence[str]
    """Labels as defined there."""


def classes_of(data: Data, source_names: tuple[str, ...] | None, train: Examples) -> Classes:
    """Return the classes that the request defines, or else those of the source, or else those of the training rows."""
    if data.label_map is not None:
        return _classes_of_map(data.label_map, source_names or ())
    if data.labels is not None:
        return _classes_named(data.labels, _numbers_by_name(data.labels), "data.labels")
    if source_names is not None:
        # A number in the source is an index into its label names, even if these names are numbers themselves.
        names: dict[Label, int] = {name: number for number, name in enumerate(source_names)}
        return _classes_named(source_names, _numbers_by_index(source_names) | names, "the data set's own labels")
    row_names = names_in_rows(train)
    return _classes_named(row_names, _numbers_by_name(row_names, allow_indices=False), "the training rows")


def check_label_types(examples: Examples) -> None:
    """Raise InputError if labels mix words and numbers, or are fractions or negative numbers."""
    label_type = type(examples.labels[0])
    for index, label in enumerate(examples.labels):
        if isinstance(label, int) and label < 0:
            raise _invalid_label(examples, index)
        if type(label) is not label_type:
            first = f"{short_text(examples.labels[0])} ({examples.location(0)})"
            raise InputError(f"{examples.location(index)}: label {short_text(label)} has a different type than {first}")
    if all(isinstance(label, str) and _OTHER_NUMBER.fullmatch(label) for label in examples.labels):
        for index, label in enumerate(examples.labels):
            if not _WHOLE_NUMBER.fullmatch(str(label)):
                raise _invalid_label(examples, index)


def names_in_rows(train: Examples) -> tuple[str, ...]:
    """Return the label names in the training rows: numbers in numeric order, words in alphabetical order."""
    labels = set(train.labels)
    if len(labels) < 2:
        raise InputError(f"{train.source} has only one class, {short_text(train.labels[0])}; at least two are required")
    if all(isinstance(label, int) or _WHOLE_NUMBER.fullmatch(label) for label in labels):
        return tuple(str(label) for label in sorted(labels, key=lambda label: (int(label), str(label))))
    return tuple(sorted(str(label) for label in labels))


def encode(examples: Examples, classes: Classes) -> list[int]:
    """Return the class number of each row."""
    encoded = []
    for index, label in enumerate(examples.labels):
        if label not in classes.numbers:
            raise _unknown_label(examples.location(index), label, classes)
        encoded.append(classes.numbers[label])
    return encoded


def check_classes(train: Examples, encoded: Sequence[int], classes: Classes) -> None:
    """Raise InputError if the training rows have only one class."""
    if len(set(encoded)) < 2:
        name = short_text(classes.names[encoded[0]])
        raise InputError(f"{train.source} has only one class, {name}; at least two are required")


def _classes_of_map(label_map: Mapping[str, Sequence[Label]], source_names: Sequence[str]) -> Classes:
    """Return the classes of a label map. The map may use the source's label names instead of its numbers."""
    numbers: dict[Label, int] = {}
    for number, values in enumerate(label_map.values()):
        for value in values:
            numbers[str(value)] = number
            if _SIGNED_NUMBER.fullmatch(str(value)):
                numbers[int(value)] = number
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
    if all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        # With names such as 1 to 5 (stars), a number in the data is a name, not an index from 0 to 4.
        return numbers | {int(name): number for number, name in enumerate(names)}
    return _numbers_by_index(names) | numbers if allow_indices else numbers


def _numbers_by_index(names: Sequence[str]) -> dict[Label, int]:
    return {label: number for number in range(len(names)) for label in (number, str(number))}


def _invalid_label(examples: Examples, index: int) -> InputError:
    label = short_text(examples.labels[index])
    return InputError(f"{examples.location(index)}: label {label} must be a word or a whole number of at least 0")


def _unknown_label(location: str, label: Label, classes: Classes) -> InputError:
    known = classes.known_labels
    listed = ", ".join(short_text(name) for name in known[:20]) + (" ..." if len(known) > 20 else "")
    hint = nearest(str(label), known)
    return InputError(f"{location}: label {short_text(label)} is not in {classes.label_source} ({listed}).{hint}")
