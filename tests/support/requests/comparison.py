"""Comparison of two requests, field by field, with the differences that are intended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.services.local import toolkit

KEYS = ("ChannelName", "Name", "Key")
"""Keys that identify the entries of a list."""


class Like(str):
    """Pattern that equals every text it matches, such as a URI that contains a hash."""

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
    """Fields of the golden request that ours lacks or has with another value."""
    ours: Mapping[str, Any] = field(default_factory=dict)
    """Fields that our request has instead."""


def renamed(theirs: str, ours: str, golden: Mapping[str, Any], because: str) -> Difference:
    """Return the difference of a hyperparameter that has the same value under another name."""
    value = golden.get(f"HyperParameters.{theirs}")
    named = {f"HyperParameters.{theirs}": value}, {f"HyperParameters.{ours}": value}
    return Difference(because=because, theirs=named[0], ours=named[1])


def without(because: str, **theirs: Any) -> Difference:
    """Return the difference of hyperparameters that our request lacks."""
    return Difference(because=because, theirs={f"HyperParameters.{name}": value for name, value in theirs.items()})


def instead(because: str, theirs: Mapping[str, Any], **ours: Any) -> Difference:
    """Return the difference of hyperparameters that our request expresses in another way."""
    named = [{f"HyperParameters.{name}": value for name, value in side.items()} for side in (theirs, ours)]
    return Difference(because=because, theirs=named[0], ours=named[1])


def unexplained(golden: Mapping[str, Any], request: Mapping[str, Any], differences: Sequence[Difference]) -> list[str]:
    """Return the differences of two flat requests that are not listed, and the listed ones that do not exist."""
    theirs, ours = dict(golden), dict(request)
    found: list[str] = []
    for each in differences:
        found += [f"{name} differs in nothing: {each.because}" for name in each.theirs if _same(name, golden, request)]
        found += _taken(theirs, each.theirs, "the golden request")
        found += _taken(ours, each.ours, "our request")
    for name in sorted(theirs.keys() | ours.keys()):
        if name not in theirs or name not in ours or theirs[name] != ours[name]:
            found.append(
                f"{name}: {theirs.get(name, 'nothing')!r} in the golden request, {ours.get(name, 'nothing')!r}"
            )
    return found


def _same(name: str, golden: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    return name in golden and name in request and golden[name] == request[name]


def _taken(request: dict[str, Any], listed: Mapping[str, Any], whose: str) -> Iterator[str]:
    """Remove the listed fields from the request, and yield those that are missing or have another value."""
    for name, value in listed.items():
        if name not in request:
            yield f"{whose} has no {name}, or it is listed twice"
        elif request.pop(name) != value:
            yield f"{whose} has another {name} than {value!r}"


def fields_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request's single values by dotted name, hyperparameters decoded."""
    return dict(_flat({**request, "HyperParameters": toolkit.decoded(request["HyperParameters"])}))


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        key = next((key for key in KEYS if key in value[0]), None)
        value = {(entry.pop(key) if key else str(at)): entry for at, entry in enumerate(map(dict, value))}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix, value
