"""Validate a call against botocore's model of the service, as AWS's front end does: every limit, not only types.

botocore's own `ParamValidator` checks types, required members and minima (botocore 1.44.5, `validate.py`). The
service checks lengths, patterns, counts, maxima and enumerations too, with messages like those below
(zenml-io/zenml#1502 and #1517; aws-samples/amazon-sagemaker-pytorch-detectron2#10).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import regex
from botocore.validate import ParamValidator

MEMBER = "failed to satisfy constraint: Member must"


def errors_of(shape: Any, parameters: Mapping[str, Any]) -> str | None:
    """Return the message of a ValidationException for the parameters of a call, or None if they are valid."""
    report = ParamValidator().validate(dict(parameters), shape)
    if report.has_errors():
        return str(report.generate_report())
    found = list(_errors(shape, parameters, ""))
    if not found:
        return None
    return f"{len(found)} validation error{'s' * (len(found) > 1)} detected: {'; '.join(found)}"


def _errors(shape: Any, value: Any, place: str) -> Iterator[str]:
    limits = shape.metadata
    if shape.type_name == "structure":
        if getattr(shape, "is_tagged_union", False) and len(value) != 1:
            yield f"Value at '{place}' {MEMBER} have exactly one member set"
        for name, member in shape.members.items():
            if name in value:
                yield from _errors(member, value[name], f"{place}.{name[0].lower()}{name[1:]}".lstrip("."))
    if shape.type_name == "list":
        for number, each in enumerate(value, 1):
            yield from _errors(shape.member, each, f"{place}.{number}.member")
    if shape.type_name == "map":
        for name, each in value.items():
            yield from _errors(shape.key, name, f"{place}.key")
            yield from _errors(shape.value, each, f"{place}.{name}.value")
    if shape.type_name in {"list", "map", "string"}:
        # Java counts UTF-16 code units.
        length = len(value.encode("utf-16-le", "surrogatepass")) // 2 if shape.type_name == "string" else len(value)
        if length < limits.get("min", 0):
            yield f"Value '{value}' at '{place}' {MEMBER} have length greater than or equal to {limits['min']}"
        if length > limits.get("max", length):
            yield f"Value '{value}' at '{place}' {MEMBER} have length less than or equal to {limits['max']}"
    if shape.type_name in {"integer", "long", "float", "double"}:
        if value < limits.get("min", value):
            yield f"Value '{value}' at '{place}' {MEMBER} have value greater than or equal to {limits['min']}"
        if value > limits.get("max", value):
            yield f"Value '{value}' at '{place}' {MEMBER} have value less than or equal to {limits['max']}"
    if shape.type_name == "string":
        yield from _text_errors(shape, value, place)


def _text_errors(shape: Any, value: str, place: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield f"Value '{value}' at '{place}' {MEMBER} satisfy enum value set: [{', '.join(shape.enum)}]"
    pattern = shape.metadata.get("pattern")
    # `$` of Java's default mode and of `regex.fullmatch` agree; `\p{Alnum}` is Java's name of a POSIX class.
    if pattern and not regex.fullmatch(re.sub(r"\\p\{Alnum\}", "A-Za-z0-9", pattern), value):
        yield f"Value '{value}' at '{place}' {MEMBER} satisfy regular expression pattern: {pattern}"
