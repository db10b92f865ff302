"""Inputs of a trained model: examples, their tokens, and checks. Each error is one sentence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from training.job.tasks.checks import is_unicode, nearest, short_text


class Example(NamedTuple):
    """One input of a model."""

    location: str
    """Location of this input for messages, such as `inputs[1]`."""
    text: str
    """The text, or the question."""
    pair: str | None = None
    """The second text, or the question's context."""
    options: Mapping[str, Any] = {}
    """The request's parameters."""
    detail: Any = None
    """Anything else that the task needs to encode the input."""


class TokenRow(NamedTuple):
    """One row of a batch."""

    ids: list[int]
    """Token ids, special tokens included, without padding."""
    types: list[int] | None
    """Token types: 0 for the first text, 1 for the second. None for a single text, or a model without token types."""


class EncodedInput(NamedTuple):
    """One tokenized input."""

    example: Any
    """The example, as returned by the task's `read_inputs`."""
    rows: tuple[TokenRow, ...]
    """One row, or one row per window for a question with a long context."""
    detail: Any = None
    """Data that the task needs to turn the model's output into an answer."""

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)


class BadInputs(ValueError):
    """Invalid input for a model. The message is one sentence with the field and the reason."""


def same_options(encoded: Sequence[EncodedInput]) -> Iterator[tuple[list[int], Mapping[str, Any]]]:
    """Yield the positions of inputs with the same parameters, and these parameters: one batch can generate for them."""
    left = list(range(len(encoded)))
    while left:
        options = encoded[left[0]].example.options
        yield [at for at in left if encoded[at].example.options == options], options
        left = [at for at in left if encoded[at].example.options != options]


Rule = Callable[[str, Any], Any]
"""Function that checks a parameter, given its name and value: returns the value or raises `BadInputs`."""


def text(location: str, value: object, may_be_blank: bool = True) -> str:
    """Check that a value is text, and return it. Half a surrogate pair is valid in JSON but is not text."""
    if not isinstance(value, str):
        raise BadInputs(f"{location} must be text, not {short_text(value)}")
    if not is_unicode(value):
        raise BadInputs(f"{location} contains half a surrogate pair, which is not text")
    if not may_be_blank and not value.strip():
        raise BadInputs(f"{location} is empty")
    return value


def fields(location: str, value: object, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
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
        if not rules:
            raise BadInputs(f"parameter {short_text(name)} is unknown: this task has no parameters")
        if name not in rules:
            known = ", ".join(rules)
            raise BadInputs(f"parameter {short_text(name)} is unknown; use one of {known}.{nearest(str(name), rules)}")
    return {name: rules[name](f"parameter {name}", value) for name, value in arguments.items()}


def rule(accepts: Callable[[Any], bool], words: str) -> Rule:
    """Return a rule that accepts some values. `words` say which, for the message."""

    def checked(name: str, value: Any) -> Any:
        if not accepts(value):
            raise BadInputs(f"{name} is {short_text(value)}: it must be {words}")
        return value

    return checked


def whole_number(low: int, high: int) -> Rule:
    """Return a rule for whole numbers from `low` to `high`."""
    return rule(lambda value: type(value) is int and low <= value <= high, f"a whole number from {low} to {high:,}")


def number(high: float) -> Rule:
    """Return a rule for numbers above 0 and up to `high`, which become floats."""
    checked = rule(
        lambda value: type(value) in (int, float) and 0 < value <= high, f"a number above 0 and up to {high:g}"
    )
    return lambda name, value: float(checked(name, value))


boolean = rule(lambda value: isinstance(value, bool), "true or false")
