"""Choose the precision in which a model runs.

The rule is the same as in `training/job/measuring/hardware.py`: 16 bits if the device multiplies them natively.
"""

from __future__ import annotations

from pathlib import Path

from training.contract.errors import InputError

PRECISIONS = ("auto", "fp32", "bf16", "fp16")


def choose_precision(requested: str | None, evaluated: str | None, kind: str) -> str:
    """Return `fp32`, `bf16` or `fp16`, for a device of `kind` `cpu` or `cuda`.

    If `requested` is None or `auto`, a model that was `evaluated` in fp32 runs in `fp32`, so that it gives the answers
    that were scored. Any other model runs in the device's fastest precision.
    """
    if requested is not None and requested not in PRECISIONS:
        raise InputError(f"precision is {requested!r}: it must be one of {', '.join(PRECISIONS)}")
    if requested == "fp16" and kind == "cpu":
        raise InputError("precision is 'fp16', which needs a GPU, and this machine has no GPU: use bf16, fp32 or auto")
    if requested not in (None, "auto"):
        return str(requested)
    native = native_precision(kind)
    return "fp32" if evaluated == "fp32" else native


def native_precision(kind: str) -> str:
    """Return the fastest precision that the device supports natively: bf16, fp16 or fp32."""
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
