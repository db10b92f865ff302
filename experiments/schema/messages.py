"""Convert a validation error of pydantic to one sentence: location, field, value and rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from experiments.schema.overrides import is_field, keys_of, known_fields, unknown_field
from experiments.schema.yaml_document import Document
from training.contract.errors import nearest, short_text

LONGEST_KEY = 80
"""Characters of a key that a message shows."""
LONG_VALUE = re.compile(r"""(?<!\w)(['"])([^'"]{201,})\1(?!\w)""")
"""A quoted value that is too long for a message. An apostrophe follows a letter."""


def messages(error: ValidationError, document: Document, other_locations: Mapping[str, str]) -> list[str]:
    """Return the messages for the problems of an error.

    `other_locations` maps dotted names that the document does not set to their locations, such as an override.
    """
    problems: list[Any] = sorted(error.errors(include_url=False), key=lambda each: each["type"] == "missing")
    # A misspelt key also makes the right one missing. The misspelt key is the better message.
    misspelt = {each["loc"][:-1] for each in problems if each["type"] == "extra_forbidden"}
    kept = [each for each in problems if each["type"] != "missing" or each["loc"][:-1] not in misspelt]
    return list(dict.fromkeys(_message(each, document, other_locations) for each in kept))


def rule_message(rule: str, document: Document, other_locations: Mapping[str, str]) -> str:
    """Return the message for a rule between fields, with the location of the first field that it names."""
    message = printable(_with_short_values(rule))
    return f"{message} ({_location(_field_named_in(message), document, other_locations)})"


def _message(problem: Any, document: Document, other_locations: Mapping[str, str]) -> str:
    path = tuple(part for part in problem["loc"] if isinstance(part, int) or _is_key(part))
    name = dotted(path)
    shown = printable(dotted([_short(part) for part in path]))
    if problem["type"] == "value_error":
        message = printable(_with_short_values(str(problem["ctx"]["error"])))
        return f"{message} ({_location(_field_named_in(message) or path, document, other_locations)})"
    if problem["type"] == "missing":
        return f"{shown} is missing ({_location(path[:-1], document, other_locations)})"
    location = _location(path, document, other_locations)
    if problem["type"] == "extra_forbidden":
        return unknown_field(name, location)
    value = problem.get("ctx", {}).get("actual_length", short_text(problem["input"]))
    return f"{shown} {_rule(problem, name)}, not {value} ({location}){_hint(problem)}"


def _with_short_values(rule: str) -> str:
    """Return a message about a rule between fields, whose quoted values are cut in the middle if they are long."""
    return LONG_VALUE.sub(lambda match: f"{match[1]}{_short(match[2])}{match[1]}", rule)


def _short(part: str | int) -> str | int:
    """Return a key, cut in the middle if it is long: keys of a user's mapping may have any length."""
    if isinstance(part, int) or len(part) <= LONGEST_KEY:
        return part
    return f"{part[: LONGEST_KEY // 2]}…{part[-LONGEST_KEY // 2 :]}"


def printable(message: str) -> str:
    """Return a message with invisible characters, such as a byte order mark, escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in message)


def _field_named_in(message: str) -> tuple[str, ...]:
    """Return the path of the first field that a message names."""
    named = (word.strip("':,.") for word in message.split())
    name = next((word for word in named if is_field(word)), None)
    return tuple(keys_of(name)) if name else ()


def _is_key(part: str) -> bool:
    """Return True for the name of a field, and False for pydantic's name of a branch of a union."""
    return "[" not in part


def dotted(path: Sequence[str | int]) -> str:
    """Return a path in the form `data.labels[2]`."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return name.removeprefix(".")


_RULES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}


def _rule(problem: Any, name: str) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "literal_error":
        return f"must be one of {context['expected'].replace(' or ', ', ')}"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        known = [field.rpartition(".")[2] for field in known_fields() if field.startswith(f"{name}.")]
        return "must be a mapping" + (f" with the keys {', '.join(known)}" if known else "")
    if kind in {"too_short", "too_long"}:
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return f"must have {bound} items"
    return _RULES.get(kind, str(problem["msg"]).replace("Input should be", "must be").replace("String should", "must"))


def _hint(problem: Any) -> str:
    if problem["type"] != "literal_error" or not isinstance(problem["input"], str):
        return ""
    hint = nearest(problem["input"], re.findall(r"'([^']*)'", problem["ctx"]["expected"]))
    return f".{hint}" if hint else ""


def _location(path: Sequence[str | int], document: Document, other_locations: Mapping[str, str]) -> str:
    """Return the override or the line that sets a value, or else the file."""
    name = dotted(path)
    for other, location in other_locations.items():
        if _is_within(name, other) or (name and _is_within(other, name)):
            return location
    for end in range(len(path), 0, -1):
        if line := document.lines.get(tuple(path[:end])):
            return f"{document.name} line {line}"
    return document.name


def _is_within(name: str, outer: str) -> bool:
    return name == outer or name.startswith((f"{outer}.", f"{outer}["))
