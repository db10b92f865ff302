"""Class numbers of the labels in the data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.contract.errors import InputError, nearest
from training.staging.rows.examples import Examples, Label, shown
from training.staging.sources.request import Data

_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_SIGNED_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OTHER_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes of a classification, and every spelling of them in the data."""

    names: tuple[str, ...]
    """Names in the order of the class numbers."""
    numbers: Mapping[Label, int]
    """Class number by label."""
    label_source: str
    """Field or data that defines the labels, for messages."""
    known_labels: Sequence[str]
    """Labels as defined there."""


def classes_of(data: Data, source_names: tuple[str, ...] | None, train: Examples) -> Classes:
    """Return the classes that the request declares, or else those of the source, or else those of the rows."""
    if data.label_map is not None:
        return _mapped(data.label_map, source_names or ())
    if data.labels is not None:
        return _named(data.labels, _declared(data.labels), "data.labels")
    if source_names is not None:
        # A number in the source is an index into its label names, even if these names are numbers themselves.
        names: dict[Label, int] = {name: number for number, name in enumerate(source_names)}
        return _named(source_names, _indices(source_names) | names, "the data set's own labels")
    row_names = names_from(train)
    return _named(row_names, _declared(row_names, allow_indices=False), "the training rows")


def check_kinds(examples: Examples) -> None:
    """Raise InputError if the labels mix words and numbers, or are measurements rather than labels."""
    kind = type(examples.labels[0])
    for at, label in enumerate(examples.labels):
        if isinstance(label, int) and label < 0:
            raise _no_label(examples, at)
        if type(label) is not kind:
            first = f"{shown(examples.labels[0])} ({examples.location(0)})"
            raise InputError(f"{examples.location(at)}: label {shown(label)} is of another type than {first}")
    if all(isinstance(label, str) and _OTHER_NUMBER.fullmatch(label) for label in examples.labels):
        for at, label in enumerate(examples.labels):
            if not _WHOLE_NUMBER.fullmatch(str(label)):
                raise _no_label(examples, at)


def names_from(train: Examples) -> tuple[str, ...]:
    """Return the label names in the training rows: numbers in numeric order, words in alphabetical order."""
    labels = set(train.labels)
    if len(labels) < 2:
        raise InputError(f"{train.source} has only one class, {shown(train.labels[0])}; a classification needs two")
    if all(isinstance(label, int) or _WHOLE_NUMBER.fullmatch(label) for label in labels):
        return tuple(str(label) for label in sorted(labels, key=lambda label: (int(label), str(label))))
    return tuple(sorted(str(label) for label in labels))


def encode(examples: Examples, classes: Classes) -> list[int]:
    """Return the class number of each row."""
    encoded = []
    for at, label in enumerate(examples.labels):
        if label not in classes.numbers:
            raise _unknown_label(examples.location(at), label, classes)
        encoded.append(classes.numbers[label])
    return encoded


def check_classes(train: Examples, encoded: Sequence[int], classes: Classes) -> None:
    """Raise InputError if the training rows have only one class."""
    if len(set(encoded)) < 2:
        name = shown(classes.names[encoded[0]])
        raise InputError(f"{train.source} has only one class, {name}; a classification needs two")


def _mapped(label_map: Mapping[str, Sequence[Label]], source_names: Sequence[str]) -> Classes:
    """Return the classes of a label map. The map may use the source's label names in place of its numbers."""
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


def _named(names: tuple[str, ...], numbers: Mapping[Label, int], label_source: str) -> Classes:
    return Classes(names=names, numbers=numbers, label_source=label_source, known_labels=names)


def _declared(names: Sequence[str], *, allow_indices: bool = True) -> dict[Label, int]:
    """Return the class number of each spelling of a class: its name, or its index if the names are not numbers."""
    numbers: dict[Label, int] = {name: number for number, name in enumerate(names)}
    if all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        # With names such as 1 to 5 (stars), a number in the data is a name and not an index from 0 to 4.
        return numbers | {int(name): number for number, name in enumerate(names)}
    return _indices(names) | numbers if allow_indices else numbers


def _indices(names: Sequence[str]) -> dict[Label, int]:
    return {label: number for number in range(len(names)) for label in (number, str(number))}


def _no_label(examples: Examples, at: int) -> InputError:
    label = shown(examples.labels[at])
    return InputError(f"{examples.location(at)}: label {label} must be a word or a whole number from 0 up")


def _unknown_label(location: str, label: Label, classes: Classes) -> InputError:
    known = classes.known_labels
    listed = ", ".join(shown(name) for name in known[:20]) + (" ..." if len(known) > 20 else "")
    hint = nearest(str(label), known)
    return InputError(f"{location}: label {shown(label)} is not in {classes.label_source} ({listed}).{hint}")
