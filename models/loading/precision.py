"""Choose the precision in which a model runs: by default, that of its evaluation."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, NamedTuple

from training.contract.errors import InputError

PRECISIONS = ("auto", "fastest", "fp32", "bf16", "fp16")

ROWS, WIDTH = 512, 768
"""Size of the matrices whose product decides the fastest format of a CPU."""
LIMIT_SECONDS = 0.3
"""Time in which they are multiplied, at least twice in each format."""


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


def precision_message(requested: str | None, evaluated: str | None, kind: str) -> str:
    """Return one sentence with the precision of `choose_precision` and its reason."""
    chosen = choose_precision(requested, evaluated, kind)
    if requested not in (None, "auto") or evaluated is None:
        reason = "the evaluation's is unknown" if evaluated is None else f"the evaluation was in {evaluated}"
        return f"Precision: {chosen}; {reason}."
    if chosen.format != evaluated:
        return f"Precision: {chosen}, because {evaluated}, the evaluation's, needs a GPU."
    if chosen.format == "bf16" and native_precision(kind) != "bf16":
        return (
            "Precision: bf16, as in the evaluation. This device multiplies fp32 faster; --precision fastest uses that."
        )
    return f"Precision: {chosen}, as in the evaluation."


@cache
def native_precision(kind: str) -> str:
    """Return the fastest precision of the device: bf16, fp16 or fp32.

    On a GPU its compute capability decides. On a CPU it is measured, because some CPUs with instructions for bf16
    multiply it at half the speed of fp32.
    """
    import torch

    if kind == "cpu":
        return "bf16" if _multiplies_faster(torch.bfloat16, torch.float32) else "fp32"
    # Volta and Turing emulate bf16, slowly.
    return "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"


def _multiplies_faster(one: Any, other: Any) -> bool:
    """Return whether a CPU multiplies matrices of a small encoder faster in one format than in another."""
    import torch

    seconds: dict[Any, list[float]] = {one: [], other: []}
    operands = {
        dtype: (torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)) for dtype in seconds
    }
    began = time.perf_counter()
    while len(seconds[other]) < 2 or time.perf_counter() - began < LIMIT_SECONDS:
        for dtype, (left, right) in operands.items():
            started = time.perf_counter()
            torch.mm(left, right)
            seconds[dtype].append(time.perf_counter() - started)
    # The shortest time is the one that other processes have disturbed least.
    return min(seconds[one]) < min(seconds[other])
