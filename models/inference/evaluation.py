"""The task of a saved model, the settings of its evaluation, and the precision in which it runs.

Predictions use the evaluation's settings by default, so that they equal those that were scored. No library that loads a
model is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract.errors import InputError
from training.job.tasks import TASKS, find_task
from training.staging.models.model_files import read_config

FORMATS = ("fp32", "bf16", "fp16")
EVALUATED_WITH = {"auto": None, "blockwise": "eager"}
"""Attention of a training -> attention of its evaluations, where they differ or it is unknown."""


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


UNKNOWN = Evaluation()
"""Settings of a model without a run, or of a script's."""


def evaluation_of(params: Mapping[str, str], task: str) -> Evaluation:
    """Return the settings of a model's evaluation, from the parameters of its run."""
    precision, attention = params.get("hp.precision"), params.get("hp.attention")
    # A training in 8 bits evaluates in 16.
    precision = "bf16" if precision == "fp8" else precision
    max_length = None if task in TASKS and TASKS[task].predicts_tokens else _number(params.get("hp.max_length"))
    return Evaluation(
        precision=precision if precision in FORMATS else None,
        attention=EVALUATED_WITH.get(attention, attention) if attention else None,
        batch_size=_number(params.get("hp.eval_batch_size")),
        pads_to_max_length=params.get("hp.padding") == "max_length",
        max_length=max_length,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


PRECISIONS = ("auto", *FORMATS)


def choose_precision(requested: str | None, evaluated: str | None, kind: str) -> str:
    """Return the precision for a device of `kind` `cpu` or `cuda`.

    If `requested` is None or `auto`, it is the precision in which the model was `evaluated`. It is fp32 if that is
    unknown, or needs a GPU that this machine does not have.
    """
    if requested is not None and requested not in PRECISIONS:
        raise InputError(f"precision is {requested!r}: it must be one of {', '.join(PRECISIONS)}")
    if requested == "fp16" and kind == "cpu":
        raise InputError("precision is 'fp16', which needs a GPU, and this machine has no GPU: use bf16, fp32 or auto")
    if requested not in (None, "auto"):
        return str(requested)
    return "fp32" if evaluated is None or (evaluated == "fp16" and kind == "cpu") else evaluated


def read_task(folder: Path) -> str:
    """Return the task of the model in a Transformers folder. Raises `InputError`."""
    config = read_config(folder)
    if task := find_task(config):
        return task.name
    name = next(iter(config.get("architectures") or []), "no class")
    known = ", ".join(dict.fromkeys(part for task in TASKS.values() for part in task.architectures))
    raise InputError(
        f"the model's config.json names {name}: the class that it names must end in {known}, or, without a head, the "
        "file must have embedding_pooling: mean or cls"
    )
