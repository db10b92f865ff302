"""How a text goes on, as `transformers.pipeline("text-generation")` answers.

Without parameters the likeliest token follows each time, so that the same question has the same answer; the pipeline
draws them (`do_sample`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from models.loading.encoding import Encoded, Row, padded
from models.loading.inputs import BadInputs, Rule, listed, number, parameters, place, text, truth, whole_number
from models.loading.loaded_model import Loaded

HEAD = "AutoModelForCausalLM"

NEW_TOKENS = 50
MOST_NEW_TOKENS = 2_048

PARAMETERS: Mapping[str, Rule] = {
    "max_new_tokens": whole_number(1, MOST_NEW_TOKENS),
    "do_sample": truth,
    "temperature": number(0.0, 100.0),
    "top_k": whole_number(1, 1_000_000),
    "top_p": number(0.0, 1.0),
    "repetition_penalty": number(0.0, 100.0),
    "return_full_text": truth,
}
SAMPLING = ("temperature", "top_k", "top_p")


@dataclass(frozen=True, slots=True)
class Example:
    """What is to be gone on with."""

    where: str
    """How messages call it."""
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)


def reads(architecture: str) -> bool:
    """Tell whether a saved model is one."""
    return architecture.endswith(("ForCausalLM", "LMHeadModel"))


def encode_may_refuse(loaded: Loaded) -> bool:
    """Tell whether `encode` refuses some inputs that `read` lets pass."""
    return True


def read(loaded: Loaded, inputs: object, given: Mapping[str, Any] | None) -> list[Example]:
    """Return the texts."""
    options = parameters(given, PARAMETERS)
    for name in SAMPLING:
        if name in options and not options.get("do_sample"):
            raise BadInputs(f"parameter {name} goes with do_sample true: without it the likeliest token is taken")
    asked = listed(inputs)
    places = [place(at, len(asked)) for at in range(len(asked))]
    texts = [text(where, each, may_be_blank=False) for where, each in zip(places, asked, strict=True)]
    return [Example(where, each, options) for where, each in zip(places, texts, strict=True)]


def encode(loaded: Loaded, examples: Sequence[Example]) -> list[Encoded]:
    """Tokenise; a text that leaves no room for what is to follow is refused."""
    found = loaded.backend.encode_batch_fast([each.text for each in examples])
    for example, encoding in zip(examples, found, strict=True):
        _check_room(loaded, example, len(encoding.ids))
    return [
        Encoded(each, (Row(one.ids, None),), new_tokens=_follows(each))
        for each, one in zip(examples, found, strict=True)
    ]


def _follows(example: Example) -> int:
    return int(example.options.get("max_new_tokens", NEW_TOKENS))


def _check_room(loaded: Loaded, example: Example, tokens: int) -> None:
    if tokens == 0:
        raise BadInputs(f"{example.where} has no token to go on from")
    follows = _follows(example)
    if loaded.max_length is not None and tokens + follows > loaded.max_length:
        at_least = " or more" if tokens == loaded.max_length else ""
        raise BadInputs(
            f"{example.where} has {tokens} tokens{at_least} and max_new_tokens is {follows}: together the model takes "
            f"at most {loaded.max_length}"
        )


def run(loaded: Loaded, encoded: Sequence[Encoded]) -> list[Any]:
    """Return `{"generated_text"}` for each; those of the same parameters are generated together."""
    answers: list[Any] = [None] * len(encoded)
    left = list(range(len(encoded)))
    while left:
        options = encoded[left[0]].example.options
        same = [at for at in left if encoded[at].example.options == options]
        left = [at for at in left if at not in set(same)]
        for at, answer in zip(same, _generated(loaded, [encoded[at] for at in same], options), strict=True):
            answers[at] = answer
    return answers


def _generated(loaded: Loaded, encoded: Sequence[Encoded], options: Mapping[str, Any]) -> list[Any]:
    # On the left, so that what follows stands right behind each text.
    batch = padded([each.rows[0] for each in encoded], loaded.padding.leftwards(), loaded.device)
    batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
    wanted = {"do_sample": False, "max_new_tokens": NEW_TOKENS, **options}
    is_whole = wanted.pop("return_full_text", True)
    with torch.inference_mode():
        made = loaded.model.generate(**batch, **wanted, pad_token_id=loaded.padding.token)
    new = made[:, batch["input_ids"].shape[1] :].tolist()
    texts = [loaded.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in new]
    return [
        {"generated_text": each.example.text + found if is_whole else found}
        for each, found in zip(encoded, texts, strict=True)
    ]
