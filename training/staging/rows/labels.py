"""Labels as the data spells them, turned into class numbers."""

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
    """The classes of a classification, and every way in which the data may write them."""

    names: tuple[str, ...]
    """Names in the order of the class numbers."""
    numbers: Mapping[Label, int]
    """Class number by label."""
    told_by: str
    """Who tells which labels there are, for messages."""
    known: Sequence[str]
    """Labels as they are told there."""


def classes_of(data: Data, source_names: tuple[str, ...] | None, train: Examples) -> Classes:
    """Return the classes that the request declares, else those that the source names, else those of the rows."""
    if data.label_map is not None:
        return _mapped(data.label_map, source_names or ())
    if data.labels is not None:
        return _named(data.labels, _declared(data.labels), "data.labels")
    if source_names is not None:
        # The source's own numbers are places in its names, also where these names are numbers.
        names: dict[Label, int] = {name: number for number, name in enumerate(source_names)}
        return _named(source_names, _places(source_names) | names, "the data set's own labels")
    found = names_from(train)
    return _named(found, _declared(found, places=False), "the training rows")


def check_kinds(examples: Examples) -> None:
    """Refuse a mixture of words and numbers, and tables whose label column holds measurements."""
    kind = type(examples.labels[0])
    for at, label in enumerate(examples.labels):
        if isinstance(label, int) and label < 0:
            raise _no_label(examples, at)
        if type(label) is not kind:
            first = f"{shown(examples.labels[0])} ({examples.place(0)})"
            raise InputError(f"{examples.place(at)}: label {shown(label)} is of another kind than {first}")
    if all(isinstance(label, str) and _OTHER_NUMBER.fullmatch(label) for label in examples.labels):
        for at, label in enumerate(examples.labels):
            if not _WHOLE_NUMBER.fullmatch(str(label)):
                raise _no_label(examples, at)


def names_from(train: Examples) -> tuple[str, ...]:
    """Return the label names found in the training rows: numbers by size, words by alphabet."""
    found = set(train.labels)
    if len(found) < 2:
        raise InputError(f"{train.source} has only one class, {shown(train.labels[0])}; a classification needs two")
    if all(isinstance(label, int) or _WHOLE_NUMBER.fullmatch(label) for label in found):
        return tuple(str(label) for label in sorted(found, key=lambda label: (int(label), str(label))))
    return tuple(sorted(str(label) for label in found))


def encode(examples: Examples, classes: Classes) -> list[int]:
    """Return the class number of each row."""
    encoded = []
    for at, label in enumerate(examples.labels):
        if label not in classes.numbers:
            raise _unknown_label(examples.place(at), label, classes)
        encoded.append(classes.numbers[label])
    return encoded


def check_classes(train: Examples, encoded: Sequence[int], classes: Classes) -> None:
    """Refuse training rows of a single class: there is nothing to tell apart."""
    if len(set(encoded)) < 2:
        name = shown(classes.names[encoded[0]])
        raise InputError(f"{train.source} has only one class, {name}; a classification needs two")


def _mapped(label_map: Mapping[str, Sequence[Label]], source_names: Sequence[str]) -> Classes:
    """Return the classes of a map; a source's numbers may be written as its names for them."""
    numbers: dict[Label, int] = {}
    for number, values in enumerate(label_map.values()):
        for value in values:
            numbers[str(value)] = number
            if _SIGNED_NUMBER.fullmatch(str(value)):
                numbers[int(value)] = number
    for place, name in enumerate(source_names):
        if name in numbers:
            numbers[place] = numbers[name]
    known = [str(value) for values in label_map.values() for value in values]
    return Classes(names=tuple(label_map), numbers=numbers, told_by="data.label_map", known=known)


def _named(names: tuple[str, ...], numbers: Mapping[Label, int], told_by: str) -> Classes:
    return Classes(names=names, numbers=numbers, told_by=told_by, known=names)


def _declared(names: Sequence[str], *, places: bool = True) -> dict[Label, int]:
    """Return each way to write a class: its name, the number that is its name, or else its place in the names."""
    numbers: dict[Label, int] = {name: number for number, name in enumerate(names)}
    if all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        # Names such as 1 to 5 (stars) are meant where a number stands, not places 0 to 4.
        return numbers | {int(name): number for number, name in enumerate(names)}
    return _places(names) | numbers if places else numbers


def _places(names: Sequence[str]) -> dict[Label, int]:
    return {spelt: number for number in range(len(names)) for spelt in (number, str(number))}


def _no_label(examples: Examples, at: int) -> InputError:
    label = shown(examples.labels[at])
    return InputError(f"{examples.place(at)}: label {label} must be a word or a whole number from 0 up")


def _unknown_label(place: str, label: Label, classes: Classes) -> InputError:
    listed = ", ".join(shown(name) for name in classes.known[:20]) + (" ..." if len(classes.known) > 20 else "")
    hint = nearest(str(label), classes.known)
    return InputError(f"{place}: label {shown(label)} is not in {classes.told_by} ({listed}).{hint}")
