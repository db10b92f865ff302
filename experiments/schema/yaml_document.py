"""YAML documents with the line of every key, without aliases and tags.

The parser reads libyaml's events, because libyaml's composer follows nesting and aliases without a limit and can crash
the process.
Scalars follow the core schema of YAML 1.2, not PyYAML's 1.1: `1e-5` is a number and `no` is text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from state.regular_files import open_regular
from training.contract.errors import InputError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12

KeyPath = tuple[str | int, ...]
"""Keys and list indices that lead to a value."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,6})?")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}


@dataclass(frozen=True)
class Document:
    """YAML mapping with the lines of its parts."""

    name: str
    """File or other source of the text, for messages."""
    tree: dict[str, Any]
    """Mapping of dicts, lists and scalars."""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """Line of each key and list item, starting from 1."""


def read_document(path: Path, kind: str = "experiment") -> Document:
    """Return the mapping in a YAML file. `kind` names the kind of file in messages."""
    try:
        with open_regular(path, follow_links=True) as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{kind} file {str(path)!r} cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES // 1024} KiB, the limit for a {kind} file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path} line {line} is not UTF-8: byte 0x{content[error.start]:02x}") from error
    value, lines = parse(text, str(path))
    if not isinstance(value, dict):
        kinds = {type(None): "nothing", list: "a list"}
        kind = kinds.get(type(value), f"the single value {str(value)[:40]!r}")
        raise InputError(f"{path} must contain a mapping of fields, not {kind}")
    return Document(name=str(path), tree=value, lines=lines)


def parse(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    """Return the value of YAML text and the line of each part. Errors contain `name` and the line."""
    lines: dict[KeyPath, int] = {}
    try:
        events = iter(yaml.parse(text, Loader=_Loader))
        value = _document(_Builder(name, events, lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"{name} line {mark.line + 1}" if mark else name
        raise InputError(f"{location} is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{name} is not YAML: {' '.join(str(error).split())[:200]}") from error
    except UnicodeEncodeError as error:
        raise InputError(f"{name} contains an unpaired surrogate, which is not text") from error
    return value, lines


def scalar(text: str) -> Any:
    """Return the value of a plain scalar: None, a bool, an int, a float, or the text itself."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def as_yaml(tree: dict[str, Any]) -> str:
    """Return a mapping as YAML text that `parse` reads back. Text that would be a number or a constant is quoted."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


class _Dumper(yaml.SafeDumper):
    """Writer of the core schema of YAML 1.2."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if scalar(text) is text else '"'
    ),
)


@dataclass(frozen=True)
class _Builder:
    """Builds a value from events."""

    name: str
    events: Iterator[Any]
    lines: dict[KeyPath, int]

    def error(self, event: Any, reason: str) -> InputError:
        return InputError(f"{self.name} line {_line(event)}: {reason}")

    def value(self, event: Any, path: KeyPath) -> Any:
        if isinstance(event, yaml.AliasEvent):
            raise self.error(event, f"the alias *{str(event.anchor)[:60]} is not allowed; write the value out")
        if event.tag is not None and event.tag != "!":
            raise self.error(event, f"the tag {event.tag[:60]} is not allowed; write the plain value")
        if isinstance(event, yaml.ScalarEvent):
            return scalar(event.value) if event.implicit[0] else event.value
        if len(path) >= MAX_DEPTH:
            raise self.error(event, f"values nest deeper than {MAX_DEPTH} levels")
        return self._mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._sequence(path)

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self.error(event, "a key must be a single word")
            key = event.value
            if key in mapping:
                first = self.lines[(*path, key)]
                raise self.error(event, f"the key {key[:60]!r} is repeated; the first one is in line {first}")
            self.lines[(*path, key)] = _line(event)
            mapping[key] = self.value(next(self.events), (*path, key))
        return mapping

    def _sequence(self, path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            item = (*path, len(items))
            self.lines[item] = _line(event)
            items.append(self.value(event, item))
        return items


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _document(builder: _Builder) -> Any:
    """Return the value of the only document. An empty file returns None."""
    value = None
    documents = 0
    for event in builder.events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise builder.error(event, "a second document starts here; a file must contain one")
        elif isinstance(event, yaml.NodeEvent):
            value = builder.value(event, ())
    return value
