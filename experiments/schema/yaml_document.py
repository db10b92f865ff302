"""YAML documents with the line of every key, without aliases and tags.

The reader is PyYAML's own: libyaml's follows nesting without a limit and can crash the process. Scalars follow the core
schema of YAML 1.2, not PyYAML's 1.1: `1e-5` is a number and `no` is text.
"""

from __future__ import annotations

import math
import re
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
        node = yaml.compose(text, Loader=_Loader)
        return (None if node is None else _value(node, (), lines)), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"{name} line {mark.line + 1}" if mark else name
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise InputError(f"{location} is not plain YAML: {problem}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{name} is not plain YAML: {' '.join(str(error).split())[:200]}") from error
    except RecursionError as error:
        raise InputError(f"{name} is not plain YAML: its values nest too deeply") from error


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


class _Loader(yaml.SafeLoader):
    """Reader that refuses aliases and tags."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _error(event, f"the alias *{str(event.anchor)[:60]} is not allowed; write the value out")
        if event.tag not in (None, "!"):
            raise _error(event, f"the tag {event.tag[:60]} is not allowed; write the plain value")
        return super().compose_node(parent, index)


def _error(part: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=part.start_mark)


def _value(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int]) -> Any:
    """Return the value of a node, and add the lines of its parts to `lines`."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value) if node.style else scalar(node.value)
    if len(path) >= MAX_DEPTH:
        raise _error(node, f"values nest deeper than {MAX_DEPTH} levels")
    if isinstance(node, yaml.SequenceNode):
        lines |= {(*path, at): item.start_mark.line + 1 for at, item in enumerate(node.value)}
        return [_value(item, (*path, at), lines) for at, item in enumerate(node.value)]
    mapping: dict[str, Any] = {}
    for key, item in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error(key, "a key must be a single word")
        name = (*path, key.value)
        if key.value in mapping:
            raise _error(key, f"the key {key.value[:60]!r} is repeated; the first one is in line {lines[name]}")
        lines[name] = key.start_mark.line + 1
        mapping[key.value] = _value(item, name, lines)
    return mapping
