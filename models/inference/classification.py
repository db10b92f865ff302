"""Classify texts and pairs of texts, in the format of `transformers.pipeline("text-classification")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from models.inference.inputs import (
    BadInputs,
    Example,
    Rule,
    as_list,
    fields,
    input_name,
    one_of,
    parameters,
    text,
    whole_number,
)
from models.inference.loaded_model import Encoded, Loaded, Row

HEAD = "AutoModelForSequenceClassification"

MAX_LABELS = 100_000


def _top_k(name: str, value: Any) -> int | None:
    return None if value is None else int(whole_number(1, MAX_LABELS)(name, value))


PARAMETERS: Mapping[str, Rule] = {
    "top_k": _top_k,
    "function_to_apply": one_of("softmax", "sigmoid", "none"),
}
"""With `top_k`, the answer is a list of that many labels, the likeliest first. If null, the list has all labels."""


def encode_may_refuse(loaded: Loaded) -> bool:
    """Return whether an empty text has no tokens at all, because the tokenizer adds no special tokens."""
    return int(loaded.backend.num_special_tokens_to_add(False)) == 0


def read(loaded: Loaded, inputs: object, arguments: Mapping[str, Any] | None) -> list[Example]:
    """Return the texts. An input is a string, or an object with `text` and, for a pair, `text_pair`."""
    options = parameters(arguments, PARAMETERS)
    values = as_list(inputs)
    return [_example(input_name(at, len(values)), each, options) for at, each in enumerate(values)]


def _example(location: str, value: object, options: Mapping[str, Any]) -> Example:
    if isinstance(value, str):
        return Example(location, text(location, value), options=options)
    values = fields(location, value, needed=("text",), optional=("text_pair",))
    pair = values.get("text_pair")
    second = None if pair is None else text(f"{location}.text_pair", pair)
    return Example(location, text(f"{location}.text", values["text"]), second, options)


def encode(loaded: Loaded, examples: Sequence[Example]) -> list[Encoded]:
    """Tokenize the texts. Inputs that are too long are truncated; in a pair, the longer text first.

    Raises `BadInputs` for an input without tokens.
    """
    rows = loaded.rows([each.text if each.pair is None else (each.text, each.pair) for each in examples])
    for example, row in zip(examples, rows, strict=True):
        if not row.ids:
            problem = "has no tokens, because this model's tokenizer adds none to an empty text: give a text"
            raise BadInputs(f"{example.location} {problem}")
    typed = [loaded.takes_types and each.pair is not None for each in examples]
    return [
        Encoded(each, (row if with_types else Row(row.ids, None),))
        for each, row, with_types in zip(examples, rows, typed, strict=True)
    ]


def outputs(loaded: Loaded, rows: Sequence[Row]) -> list[Any]:
    """Return the logits of each row."""
    return list(loaded.forward(rows).logits.float())


def answers(loaded: Loaded, encoded: Sequence[Encoded], outputs: Sequence[Any]) -> list[Any]:
    """Return `{"label", "score"}` for each input, or a list of them with `top_k`, given the logits of their rows."""
    # In 64 bits, like the evaluation (`classification.prediction_rows`): in 32, the seventh digit would differ.
    logits = torch.stack(list(outputs)).double()
    functions = [each.example.options.get("function_to_apply") or _function(loaded.model.config) for each in encoded]
    scores = {name: FUNCTIONS[name](logits).tolist() for name in set(functions)}
    names = loaded.model.config.id2label
    return [
        _answer(scores[function][at], names, each.example.options)
        for at, (each, function) in enumerate(zip(encoded, functions, strict=True))
    ]


FUNCTIONS = {
    "softmax": lambda logits: torch.softmax(logits, dim=-1),
    "sigmoid": torch.sigmoid,
    "none": lambda logits: logits,
}


def _function(config: Any) -> str:
    """Return the function that turns logits into scores. Transformers' pipeline uses the same rule."""
    if config.problem_type == "regression":
        return "none"
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return "sigmoid"
    return "softmax"


def _answer(scores: list[float], names: Mapping[int, str], options: Mapping[str, Any]) -> Any:
    if "top_k" not in options:
        best = max(range(len(scores)), key=scores.__getitem__)
        return {"label": names[best], "score": scores[best]}
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [{"label": names[at], "score": scores[at]} for at in order[: options["top_k"]]]
