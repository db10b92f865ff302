"""The label of a text, or of a pair of texts, as `transformers.pipeline("text-classification")` answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from models.loading.encoding import Encoded, Row
from models.loading.inputs import BadInputs, Rule, fields, listed, one_of, parameters, place, text, whole_number
from models.loading.loaded_model import Loaded

HEAD = "AutoModelForSequenceClassification"

MOST_LABELS = 100_000


def _top_k(name: str, value: Any) -> int | None:
    return None if value is None else int(whole_number(1, MOST_LABELS)(name, value))


PARAMETERS: Mapping[str, Rule] = {
    "top_k": _top_k,
    "function_to_apply": one_of("softmax", "sigmoid", "none"),
}
"""top_k: so many labels, the likeliest first, null for all, in place of the likeliest alone."""


@dataclass(frozen=True, slots=True)
class Example:
    """What is to be classified."""

    where: str
    """How messages call it."""
    text: str
    text_pair: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


def reads(architecture: str) -> bool:
    """Tell whether a saved model is one."""
    return architecture.endswith("ForSequenceClassification")


def encode_may_refuse(loaded: Loaded) -> bool:
    """Tell whether an input can make no token: where the tokenizer adds none of its own."""
    return int(loaded.backend.num_special_tokens_to_add(False)) == 0


def read(loaded: Loaded, inputs: object, given: Mapping[str, Any] | None) -> list[Example]:
    """Return the texts: each a string, or an object with `text` and, of a pair, `text_pair`."""
    options = parameters(given, PARAMETERS)
    asked = listed(inputs)
    return [_example(place(at, len(asked)), each, options) for at, each in enumerate(asked)]


def _example(where: str, value: object, options: Mapping[str, Any]) -> Example:
    if isinstance(value, str):
        return Example(where, text(where, value), None, options)
    found = fields(where, value, needed=("text",), optional=("text_pair",))
    pair = found.get("text_pair")
    second = None if pair is None else text(f"{where}.text_pair", pair)
    return Example(where, text(f"{where}.text", found["text"]), second, options)


def encode(loaded: Loaded, examples: Sequence[Example]) -> list[Encoded]:
    """Tokenise; what is longer than the model takes is cut, of a pair the longer text first. No token is refused."""
    asked = [each.text if each.text_pair is None else (each.text, each.text_pair) for each in examples]
    found = loaded.backend.encode_batch_fast(asked)
    return [Encoded(each, (_row(loaded, each, one),)) for each, one in zip(examples, found, strict=True)]


def _row(loaded: Loaded, example: Example, encoding: Any) -> Row:
    if not encoding.ids:
        raise BadInputs(
            f"{example.where} makes no token, and the model's tokenizer adds none: nothing can be classified"
        )
    typed = loaded.takes_types and example.text_pair is not None
    return Row(encoding.ids, encoding.type_ids if typed else None)


def run(loaded: Loaded, encoded: Sequence[Encoded]) -> list[Any]:
    """Return `{"label", "score"}` for each, or with `top_k` a list of them."""
    logits = loaded.forward([each.rows[0] for each in encoded]).logits.float()
    functions = [each.example.options.get("function_to_apply") or _function(loaded.model.config) for each in encoded]
    made = {name: FUNCTIONS[name](logits).tolist() for name in set(functions)}
    names = loaded.model.config.id2label
    return [
        _answer(made[function][at], names, each.example.options)
        for at, (each, function) in enumerate(zip(encoded, functions, strict=True))
    ]


FUNCTIONS = {
    "softmax": lambda logits: torch.softmax(logits, dim=-1),
    "sigmoid": torch.sigmoid,
    "none": lambda logits: logits,
}


def _function(config: Any) -> str:
    """Return what turns logits into scores, by the rule of Transformers' pipeline."""
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
