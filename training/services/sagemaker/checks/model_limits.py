"""Limits of a request in botocore's model of a service: lengths, patterns, counts, ranges and choices.

botocore itself checks types, required members and minima, and leaves the rest to the service, which answers only after
the data has been uploaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import regex


@dataclass(frozen=True)
class Violation:
    """A value of a request that its model does not allow."""

    path: tuple[str, ...]
    """Members from the request to the value, such as `("Tags", "0", "Key")`."""
    value: object
    rule: str
    """Rule that the value breaks, as the end of a sentence: `at most 63 characters are allowed`."""


def violations(shape: Any, value: Any, path: tuple[str, ...] = ()) -> Iterator[Violation]:
    """Yield what a value, such as a whole request, contains that its `botocore.model.Shape` does not allow."""
    kind = shape.type_name
    if kind == "structure":
        yield from _structure(shape, value, path)
    elif kind == "list":
        yield from _size(shape, len(value), value, path, "entries")
        for at, each in enumerate(value):
            yield from violations(shape.member, each, (*path, str(at)))
    elif kind == "map":
        yield from _size(shape, len(value), value, path, "entries")
        for name, each in value.items():
            yield from violations(shape.key, name, (*path, name))
            yield from violations(shape.value, each, (*path, name))
    elif kind == "string":
        yield from _text(shape, value, path)
    elif kind in {"integer", "long", "float", "double"}:
        yield from _size(shape, value, value, path, "")


def characters(text: str) -> int:
    """Return the length of a text in UTF-16 code units, which is how Java and so the service counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _structure(shape: Any, value: Any, path: tuple[str, ...]) -> Iterator[Violation]:
    for name in shape.required_members:
        if name not in value:
            yield Violation((*path, name), None, "a value is required")
    for name, each in value.items():
        if name not in shape.members:
            yield Violation((*path, name), each, "SageMaker does not know this member")
        else:
            yield from violations(shape.members[name], each, (*path, name))


def _text(shape: Any, value: str, path: tuple[str, ...]) -> Iterator[Violation]:
    yield from _size(shape, characters(value), value, path, "characters")
    pattern = shape.metadata.get("pattern")
    if shape.enum and value not in shape.enum:
        yield Violation(path, value, "the installed botocore does not list this value")
    elif pattern and not regex.fullmatch(pattern, value):
        yield Violation(path, value, f"it must match {pattern}")


def _size(shape: Any, size: float, value: object, path: tuple[str, ...], unit: str) -> Iterator[Violation]:
    lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
    amount = f"{unit} are" if unit else "is"
    if lowest is not None and size < lowest:
        yield Violation(path, value, f"at least {lowest:,} {amount} required")
    if highest is not None and size > highest:
        yield Violation(path, value, f"at most {highest:,} {amount} allowed")
