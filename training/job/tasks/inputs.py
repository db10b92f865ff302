"""Inputs of a trained model: examples, their tokens, and checks. Each error is one sentence."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from training.job.tasks.checks import nearest, short_text


class Example(NamedTuple):
    """One input of a model."""

    location: str
    """Location of this input for messages, such as `inputs[1]`."""
    text: str
    """The text, or the question."""
    pair: Optional[str] = None
    """The second text, or the question's context."""
    options: Mapping[str, Any] = {}
    """The request's parameters."""


class TokenRow(NamedTuple):
    """One row of a batch."""

    ids: List[int]
    """Token ids, special tokens included, without padding."""
    types: Optional[List[int]]
    """Token types: 0 for the first text, 1 for the second. None for a single text, or a model without token types."""


class EncodedInput(NamedTuple):
    """One tokenized input."""

    example: Any
    """The example, as returned by the task's `read_inputs`."""
    rows: Tuple[TokenRow, ...]
    """One row, or one row per window for a question with a long context."""
    detail: Any = None
    """Data that the task needs to turn the model's output into an answer."""

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)


class BadInputs(ValueError):
    """Invalid input for a model. The message is one sentence with the field and the reason."""


Rule = Callable[[str, Any], Any]
"""Function that checks a parameter, given its name and value: returns the value or raises `BadInputs`."""


def as_list(inputs: object) -> List[Any]:
    """Return the inputs as a list. A single input becomes a list of one."""
    if not isinstance(inputs, list):
        return [inputs]
    if not inputs:
        raise BadInputs("inputs is an empty list: give at least one input")
    return inputs


def input_name(at: int, count: int) -> str:
    """Return the location for messages of the input at position `at`, from 0, out of `count` inputs."""
    return "inputs" if count == 1 else f"inputs[{at}]"


def text(location: str, value: object, may_be_blank: bool = True) -> str:
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


def fields(location: str, value: object, needed: Tuple[str, ...], optional: Tuple[str, ...] = ()) -> Dict[str, Any]:
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


def parameters(arguments: Optional[Mapping[str, Any]], rules: Mapping[str, Rule]) -> Dict[str, Any]:
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
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
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
