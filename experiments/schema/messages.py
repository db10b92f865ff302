"""From pydantic's error to one sentence: where, which field, which value, which rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from experiments.schema.overrides import known_fields, unknown_field
from experiments.schema.yaml_document import Document
from training.contract.errors import nearest
from training.staging.rows.examples import shown


def first_sentence(error: ValidationError, document: Document, elsewhere: Mapping[str, str]) -> str:
    """Return the sentence for the first of an error's complaints; `elsewhere` has where else a dotted name was set."""
    # A key that is spelt wrong also leaves the right one missing: the wrong spelling is what to tell.
    complaints: list[Any] = sorted(error.errors(include_url=False), key=lambda each: each["type"] == "missing")
    complaint = complaints[0]
    path = tuple(part for part in complaint["loc"] if isinstance(part, int) or _is_key(part))
    name = dotted(path)
    if complaint["type"] == "value_error":
        sentence = _printable(str(complaint["ctx"]["error"]))
        return f"{sentence} ({_place(_field_named_in(sentence) or path, document, elsewhere)})"
    if complaint["type"] == "missing":
        return f"{name} is missing ({_place(path[:-1], document, elsewhere)})"
    place = _place(path, document, elsewhere)
    if complaint["type"] == "extra_forbidden":
        return unknown_field(name, place)
    found = complaint.get("ctx", {}).get("actual_length", shown(complaint["input"]))
    return f"{name} {_rule(complaint, name)}, not {found} ({place}){_hint(complaint)}"


def _printable(sentence: str) -> str:
    """Return a sentence with what shows nothing, such as a byte order mark in a name, written out."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in sentence)


def _field_named_in(sentence: str) -> tuple[str, ...]:
    """Return the path of the first field that a rule's sentence names."""
    named = (word.strip("':,.") for word in sentence.split())
    name = next((word for word in named if word in known_fields()), None)
    return tuple(name.split(".")) if name else ()


def _is_key(part: str) -> bool:
    """Tell a field's name from the names that pydantic gives the branches of a union."""
    return "[" not in part


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as messages write it: `data.labels[2]`."""
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


def _rule(complaint: Any, name: str) -> str:
    kind, context = complaint["type"], complaint.get("ctx", {})
    if kind == "literal_error":
        return f"must be one of {context['expected'].replace(' or ', ', ')}"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        known = [field.rpartition(".")[2] for field in known_fields() if field.startswith(f"{name}.")]
        return "must be a mapping" + (f" with the keys {', '.join(known)}" if known else "")
    if kind in {"too_short", "too_long"}:
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return f"must have {bound} items"
    return _RULES.get(
        kind, str(complaint["msg"]).replace("Input should be", "must be").replace("String should", "must")
    )


def _hint(complaint: Any) -> str:
    if complaint["type"] != "literal_error" or not isinstance(complaint["input"], str):
        return ""
    hint = nearest(complaint["input"], re.findall(r"'([^']*)'", complaint["ctx"]["expected"]))
    return f".{hint}" if hint else ""


def _place(path: Sequence[str | int], document: Document, elsewhere: Mapping[str, str]) -> str:
    """Return the override or the line that a value comes from; where it is part of neither, the file."""
    name = dotted(path)
    for other, place in elsewhere.items():
        if _is_within(name, other) or (name and _is_within(other, name)):
            return place
    for end in range(len(path), 0, -1):
        if line := document.lines.get(tuple(path[:end])):
            return f"{document.name} line {line}"
    return document.name


def _is_within(name: str, outer: str) -> bool:
    return name == outer or name.startswith((f"{outer}.", f"{outer}["))
