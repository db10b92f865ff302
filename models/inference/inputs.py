"""Examples of the tasks, and checks of inputs and parameters. Each error is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from training.contract.errors import nearest, short_text


@dataclass(frozen=True, slots=True)
class Example:
    """One input of a model."""

    location: str
    """Location of this input for messages, such as `inputs[1]`."""
    text: str
    """The text, or the question."""
    pair: str | None = None
    """The second text, or the question's context."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The request's parameters."""


class BadInputs(ValueError):
    """Invalid input for a model. The message is one sentence with the field and the reason."""


Rule = Callable[[str, Any], Any]
"""Function that checks a parameter, given its name and value: returns the value or raises `BadInputs`."""


def as_list(inputs: object) -> list[Any]:
    """Return the inputs as a list. A single input becomes a list of one."""
    if not isinstance(inputs, list):
        return [inputs]
    if not inputs:
        raise BadInputs("inputs is an empty list: give at least one input")
    return inputs


def input_name(at: int, count: int) -> str:
    """Return the location for messages of the input at position `at`, from 0, out of `count` inputs."""
    return "inputs" if count == 1 else f"inputs[{at}]"


def text(location: str, value: object, *, may_be_blank: bool = True) -> str:
    """Check that a value is text, and return it. Half a surrogate pair is valid in JSON but is not text."""
    if not isinstance(value, str):
        raise BadInputs(f"{location} must be text, not {short_text(value)}")
    try:
        value.isascii() or value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInputs(f"{location} contains half a surrogate pair, which is not text") from None
    if not may_be_blank and not value.strip():
        raise BadInputs(f"{location} is empty")
    return value


def fields(location: str, value: object, *, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Check that an object has all fields of `needed` and no others except `optional`, and return it."""
    names = " and ".join(repr(name) for name in needed)
    if not isinstance(value, dict):
        raise BadInputs(f"{location} must be an object with {names}, not {short_text(value)}")
    for name in needed:
        if name not in value:
            raise BadInputs(f"{location} has no {name!r}: it must be an object with {names}")
    for name in value:
        if name not in (*needed, *optional):
            known = (*needed, *optional)
            listing = ", ".join(repr(each) for each in known)
            raise BadInputs(
                f"{location} has the unknown field {short_text(name)}; known fields: {listing}.{nearest(name, known)}"
            )
    return value


def parameters(arguments: Mapping[str, Any] | None, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """Check each parameter by its rule, and return the parameters."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadInputs(f"parameters must be an object, not {short_text(arguments)}")
    for name in arguments:
        if name not in rules:
            known = ", ".join(rules)
            raise BadInputs(f"parameter {short_text(name)} is unknown; use one of {known}.{nearest(str(name), rules)}")
    return {name: rules[name](f"parameter {name}", value) for name, value in arguments.items()}


def whole_number(low: int, high: int) -> Rule:
    """Return a rule for whole numbers from `low` to `high`."""

    def checked(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise BadInputs(f"{name} is {short_text(value)}: it must be a whole number from {low} to {high:,}")
        return value

    return checked


def number(low: float, high: float) -> Rule:
    """Return a rule for numbers above `low` and up to `high`."""

    def checked(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low < value <= high:
            raise BadInputs(f"{name} is {short_text(value)}: it must be a number above {low:g} and up to {high:g}")
        return float(value)

    return checked


def boolean(name: str, value: Any) -> bool:
    """Check that a value is true or false, and return it."""
    if not isinstance(value, bool):
        raise BadInputs(f"{name} is {short_text(value)}: it must be true or false")
    return value


def one_of(*choices: str) -> Rule:
    """Return a rule that accepts only the given choices."""

    def checked(name: str, value: Any) -> str:
        if value not in choices:
            raise BadInputs(f"{name} is {short_text(value)}: it must be one of {', '.join(choices)}")
        return str(value)

    return checked
