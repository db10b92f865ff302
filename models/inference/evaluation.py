"""The task of a saved model, the settings of its evaluation, and the precision in which it runs.

Predictions use the evaluation's settings by default, so that they equal those that were scored. No library that loads a
model is imported.
"""

from __future__ import annotations

import timeit
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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


PRECISIONS = ("auto", "fastest", "fp32", "bf16", "fp16")

ROWS, WIDTH = 512, 768
"""Size of the matrices whose product decides the fastest format of a CPU, and how often they are multiplied."""
PRODUCTS = 15


class Precision(NamedTuple):
    """Number format of a model's matrix products."""

    format: str
    """fp32, bf16 or fp16."""
    is_whole: bool = False
    """True if the whole model is converted to the format. False if only the matrix products are in 16 bits, as in
    training and evaluation (PyTorch's autocast)."""

    def __str__(self) -> str:
        """Return the name for messages and records."""
        return f"fastest ({self.format})" if self.is_whole else self.format


def choose_precision(requested: str | None, evaluated: str | None, kind: str) -> Precision:
    """Return the precision for a device of `kind` `cpu` or `cuda`.

    If `requested` is None or `auto`, it is the precision in which the model was `evaluated`. It is fp32 if that is
    unknown, or needs a GPU that this machine does not have. `fastest` converts the whole model to the format that the
    device multiplies fastest.
    """
    if requested is not None and requested not in PRECISIONS:
        raise InputError(f"precision is {requested!r}: it must be one of {', '.join(PRECISIONS)}")
    if requested == "fp16" and kind == "cpu":
        raise InputError("precision is 'fp16', which needs a GPU, and this machine has no GPU: use bf16, fp32 or auto")
    if requested == "fastest":
        return Precision(native_precision(kind), is_whole=True)
    if requested not in (None, "auto"):
        return Precision(str(requested))
    return Precision("fp32" if evaluated is None or (evaluated == "fp16" and kind == "cpu") else evaluated)


@cache
def native_precision(kind: str) -> str:
    """Return the fastest precision of the device: bf16, fp16 or fp32.

    On a GPU its compute capability decides. On a CPU it is measured, because some CPUs with instructions for bf16
    multiply it at half the speed of fp32.
    """
    import torch

    if kind == "cpu":
        return "bf16" if _product_seconds(torch.bfloat16) < _product_seconds(torch.float32) else "fp32"
    # Volta and Turing emulate bf16, slowly.
    return "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"


def _product_seconds(dtype: Any) -> float:
    """Return the time of a small encoder's matrix product: the shortest, which other processes have disturbed least."""
    import torch

    left, right = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    return min(timeit.repeat(lambda: torch.mm(left, right), number=1, repeat=PRODUCTS))


def read_task(folder: Path) -> str:
    """Return the task of the model in a Transformers folder. Raises `InputError`."""
    config = read_config(folder)
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InputError(f"{folder / 'config.json'} has no field 'architectures', so the model's task is unknown")
    if task := find_task(config):
        return task.name
    raise InputError(f"the model's class {names[0]!r} fits none of the supported tasks: {', '.join(TASKS)}")
