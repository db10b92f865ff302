"""Labels as the data spells them, turned into class numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from training.errors import InputError, nearest
from training.staging.examples import Examples, Label, shown

_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_OTHER_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf)", re.IGNORECASE)


def check_kinds(examples: Examples) -> None:
    """Refuse a mixture of words and numbers, and tables whose label column holds measurements."""
    kind = type(examples.labels[0])
    for at, label in enumerate(examples.labels):
        if type(label) is not kind:
            first = f"{shown(examples.labels[0])} ({examples.place(0)})"
            raise InputError(f"{examples.place(at)}: label {shown(label)} is of another kind than {first}")
    if all(isinstance(label, str) and _OTHER_NUMBER.fullmatch(label) for label in examples.labels):
        for at, label in enumerate(examples.labels):
            if not _WHOLE_NUMBER.fullmatch(str(label)):
                raise InputError(
                    f"{examples.place(at)}: label {shown(label)} must be a word or a whole number from 0 up"
                )


def names_from(train: Examples) -> tuple[str, ...]:
    """Return the label names found in the training rows: numbers by size, words by alphabet."""
    found = set(train.labels)
    if len(found) < 2:
        raise InputError(f"{train.source} has only one class, {shown(train.labels[0])}; a classification needs two")
    if all(isinstance(label, int) or _WHOLE_NUMBER.fullmatch(label) for label in found):
        return tuple(str(label) for label in sorted(found, key=lambda label: (int(label), str(label))))
    return tuple(sorted(str(label) for label in found))


def encode(examples: Examples, names: Sequence[str], *, declared: bool) -> list[int]:
    """Return the class number of each row: by name, or where names were declared also by number."""
    numbers = _spellings(names, declared)
    encoded = []
    for at, label in enumerate(examples.labels):
        if label not in numbers:
            raise _unknown_label(examples.place(at), label, names, declared)
        encoded.append(numbers[label])
    return encoded


def _spellings(names: Sequence[str], declared: bool) -> dict[Label, int]:
    """Return each way to write a class: its name, the number that is its name, or its place in declared names."""
    spellings: dict[Label, int] = {name: number for number, name in enumerate(names)}
    if all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        # Names such as 1 to 5 (stars) are meant where a number stands, not places 0 to 4.
        return spellings | {int(name): number for number, name in enumerate(names)}
    if declared:
        for number in range(len(names)):
            spellings.setdefault(number, number)
            spellings.setdefault(str(number), number)
    return spellings


def check_classes(train: Examples, encoded: Sequence[int]) -> None:
    """Refuse training rows of a single class: there is nothing to tell apart."""
    if len(set(encoded)) < 2:
        raise InputError(f"{train.source} has only one class, {shown(train.labels[0])}; a classification needs two")


def _unknown_label(place: str, label: Label, names: Sequence[str], declared: bool) -> InputError:
    listed = ", ".join(shown(name) for name in names[:20]) + (" ..." if len(names) > 20 else "")
    where = f"data.labels ({listed})" if declared else f"the training rows, which have {listed}"
    return InputError(f"{place}: label {shown(label)} is not in {where}.{nearest(str(label), names)}")
