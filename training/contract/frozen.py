"""Base class and text type of everything that a user writes in an experiment file, and its errors in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from training.contract.errors import short_text

Name = Annotated[str, Field(min_length=1, max_length=4_096)]


class Frozen(BaseModel):
    """Base of all models in an experiment file: no unknown keys, no implicit conversion, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def dotted(path: Sequence[str | int]) -> str:
    """Return a path in the form `data.labels[2]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


_RULES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a mapping"),
}


def broken_rule(problem: Mapping[str, Any], keys: Sequence[str] = ()) -> str:
    """Return the rule that a value breaks, and the value: `must be text, not 3`. `keys` are the keys of a mapping."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return "is missing"
    rule = _RULES.get(kind, str(problem["msg"]).replace("Input should be", "must be").replace("String should", "must"))
    if kind == "literal_error":
        rule = f"must be one of {context['expected'].replace(' or ', ', ')}"
    elif kind == "too_short":
        rule = f"must have at least {context['min_length']} items"
    elif kind == "too_long":
        rule = f"must have at most {context['max_length']} items"
    elif rule == "must be a mapping" and keys:
        rule += f" with the keys {', '.join(keys)}"
    return f"{rule}, not {context.get('actual_length', short_text(problem['input']))}"
