"""Settings with which a job evaluated its model. Predictions use them by default, so that they equal those scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

FORMATS = ("fp32", "bf16", "fp16")
EVALUATED_WITH = {"auto": None, "blockwise": "eager"}
"""Attention of a training -> that of its evaluations, where they differ or it is unknown."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Settings of an evaluation. None: unknown, or the library's default."""

    precision: str | None = None
    """fp32, bf16 or fp16. In 16 bits, the weights stay in fp32 and PyTorch's autocast converts the matrix products."""
    attention: str | None = None
    """Attention implementation of Transformers, such as `eager`."""
    batch_size: int | None = None
    """Rows of a batch. The rows are sorted by length, the shortest first."""
    pads_to_max_length: bool = False
    """True if all rows are padded to `max_length`, instead of to the longest of their batch."""
    max_length: int | None = None
    """Tokens to which texts were truncated. None for a language model, whose texts were cut into blocks."""

    def to_json(self) -> str:
        """Return the settings as one line of JSON."""
        return json.dumps(asdict(self))


UNKNOWN = Evaluation()
"""Settings of a model without a run, or of a script's."""


def evaluation_of(params: Mapping[str, str], task: str) -> Evaluation:
    """Return the settings of a model's evaluation, from the parameters of its run."""
    precision, attention = params.get("hp.precision"), params.get("hp.attention")
    # A training in 8 bits evaluates in 16.
    precision = "bf16" if precision == "fp8" else precision
    max_length = None if task == "causal-lm" else _number(params.get("hp.max_length"))
    return Evaluation(
        precision=precision if precision in FORMATS else None,
        attention=EVALUATED_WITH.get(attention, attention) if attention else None,
        batch_size=_number(params.get("hp.eval_batch_size")),
        pads_to_max_length=params.get("hp.padding") == "max_length",
        max_length=max_length,
    )


def evaluation_from_json(text: str | None) -> Evaluation:
    """Return the settings that `Evaluation.to_json` wrote; unknown ones for None."""
    return Evaluation(**json.loads(text)) if text else UNKNOWN


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
