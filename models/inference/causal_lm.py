"""Continue texts, in the format of `transformers.pipeline("text-generation")`.

By default each new token is the likeliest one, so the same text always has the same continuation. Transformers'
pipeline samples by default (`do_sample`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from models.inference.inputs import (
    BadInputs,
    Example,
    Rule,
    as_list,
    boolean,
    input_name,
    number,
    parameters,
    text,
    whole_number,
)
from models.inference.loaded_model import Encoded, Loaded, Row, pad_rows

HEAD = "AutoModelForCausalLM"

NEW_TOKENS = 50
MAX_NEW_TOKENS = 2_048

PARAMETERS: Mapping[str, Rule] = {
    "max_new_tokens": whole_number(1, MAX_NEW_TOKENS),
    "do_sample": boolean,
    "temperature": number(0.0, 100.0),
    "top_k": whole_number(1, 1_000_000),
    "top_p": number(0.0, 1.0),
    "repetition_penalty": number(0.0, 100.0),
    "return_full_text": boolean,
}
SAMPLING = ("temperature", "top_k", "top_p")


def encode_may_refuse(loaded: Loaded) -> bool:
    """Return True: `encode` rejects texts that leave no room for new tokens."""
    return True


def read(loaded: Loaded, inputs: object, arguments: Mapping[str, Any] | None) -> list[Example]:
    """Return the texts to continue."""
    options = parameters(arguments, PARAMETERS)
    for name in SAMPLING:
        if name in options and not options.get("do_sample"):
            raise BadInputs(f"parameter {name} requires do_sample true: without sampling, it has no effect")
    values = as_list(inputs)
    names = [input_name(at, len(values)) for at in range(len(values))]
    texts = [text(location, each, may_be_blank=False) for location, each in zip(names, values, strict=True)]
    return [Example(location, each, options=options) for location, each in zip(names, texts, strict=True)]


def encode(loaded: Loaded, examples: Sequence[Example]) -> list[Encoded]:
    """Tokenize the texts. Raises `BadInputs` for a text that leaves no room for new tokens."""
    rows = loaded.rows([each.text for each in examples])
    for example, row in zip(examples, rows, strict=True):
        _check_room(loaded, example, len(row.ids))
    return [Encoded(each, (Row(row.ids, None),)) for each, row in zip(examples, rows, strict=True)]


def _check_room(loaded: Loaded, example: Example, tokens: int) -> None:
    if tokens == 0:
        raise BadInputs(f"{example.location} has no tokens: there is nothing to continue")
    follows = int(example.options.get("max_new_tokens", NEW_TOKENS))
    if loaded.max_length is not None and tokens + follows > loaded.max_length:
        at_least = " or more" if tokens == loaded.max_length else ""
        raise BadInputs(
            f"{example.location} has {tokens} tokens{at_least} and max_new_tokens is {follows}: the model accepts at "
            f"most {loaded.max_length} in total, so shorten the text or lower max_new_tokens"
        )


def generate(loaded: Loaded, encoded: Sequence[Encoded]) -> list[Any]:
    """Return `{"generated_text"}` for each text. Texts with the same parameters run together."""
    answers: list[Any] = [None] * len(encoded)
    left = list(range(len(encoded)))
    while left:
        options = encoded[left[0]].example.options
        same = [at for at in left if encoded[at].example.options == options]
        left = [at for at in left if at not in set(same)]
        for at, answer in zip(same, _generate(loaded, [encoded[at] for at in same], options), strict=True):
            answers[at] = answer
    return answers


def _generate(loaded: Loaded, encoded: Sequence[Encoded], options: Mapping[str, Any]) -> list[Any]:
    # Pad on the left, so that new tokens follow each text directly.
    batch = pad_rows([each.rows[0] for each in encoded], replace(loaded.padding, on_left=True), loaded.device)
    batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
    settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, **options}
    is_whole = settings.pop("return_full_text", True)
    with loaded.inference():
        output = loaded.model.generate(**batch, **settings, pad_token_id=loaded.padding.token)
    new = output[:, batch["input_ids"].shape[1] :].tolist()
    texts = [loaded.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in new]
    return [
        {"generated_text": each.example.text + generated if is_whole else generated}
        for each, generated in zip(encoded, texts, strict=True)
    ]
