"""Choose the precision in which a model runs: by default, that of its evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from training.contract.errors import InputError

PRECISIONS = ("auto", "fastest", "fp32", "bf16", "fp16")


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
        return "Precision: bf16, as in the evaluation. This device emulates it slowly; --precision fastest is faster."
    return f"Precision: {chosen}, as in the evaluation."


def native_precision(kind: str) -> str:
    """Return the fastest precision that the device supports natively: bf16, fp16 or fp32.

    The rule is the same as in `training/job/measuring/hardware.py`.
    """
    if kind == "cpu":
        return "bf16" if {"avx512_bf16", "amx_bf16"} & _cpu_flags() else "fp32"
    import torch

    # Volta and Turing emulate bf16, slowly.
    return "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
