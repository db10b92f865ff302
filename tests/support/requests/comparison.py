"""Compare two requests field by field, with a list of intended differences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.services.supervision import toolkit

KEYS = ("ChannelName", "Name", "Key")
"""Keys that identify the entries of a list."""


class Like(str):
    """Pattern that equals every text that it matches, such as a URI that contains a hash."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and re.fullmatch(str(self), other) is not None

    def __ne__(self, other: object) -> bool:
        return not self == other


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Intended difference between two requests, and its reason."""

    because: str
    theirs: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the golden request that are missing in our request or have a different value there."""
    ours: Mapping[str, Any] = field(default_factory=dict)
    """Fields that our request has instead."""


def unexplained(golden: Mapping[str, Any], request: Mapping[str, Any], differences: Sequence[Difference]) -> list[str]:
    """Return the differences of two flat requests that are not listed, and the listed ones that do not exist."""
    theirs, ours = dict(golden), dict(request)
    problems: list[str] = []
    for each in differences:
        problems += [f"{name} does not differ: {each.because}" for name in each.theirs if _same(name, golden, request)]
        problems += _remove(theirs, each.theirs, "the golden request")
        problems += _remove(ours, each.ours, "our request")
    for name in sorted(theirs.keys() | ours.keys()):
        if name not in theirs or name not in ours or theirs[name] != ours[name]:
            problems.append(
                f"{name}: {theirs.get(name, 'nothing')!r} in the golden request, {ours.get(name, 'nothing')!r}"
            )
    return problems


def _same(name: str, golden: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    return name in golden and name in request and golden[name] == request[name]


def _remove(request: dict[str, Any], listed: Mapping[str, Any], owner: str) -> Iterator[str]:
    """Remove the listed fields from the request, and yield an error for each that is missing or has another value."""
    for name, value in listed.items():
        if name not in request:
            yield f"{owner} has no {name}, or it is listed twice"
        elif request.pop(name) != value:
            yield f"the {name} of {owner} is not {value!r}"


def fields_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request's values by dotted name, with decoded hyperparameters."""
    return dict(_flat({**request, "HyperParameters": toolkit.decoded(request["HyperParameters"])}))


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        key = next((key for key in KEYS if key in value[0]), None)
        value = {(entry.pop(key) if key else str(index)): entry for index, entry in enumerate(map(dict, value))}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix, value
