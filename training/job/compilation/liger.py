"""Liger's kernels: Triton programs in place of a decoder's norms, rotary embeddings, MLPs and loss."""

from typing import Any, Dict

from training.job.processes.protocols import Model
from training.job.processes.reporting import Unsupported

WAY_OUT = "use kernels torch"


def check(device_kind: str) -> None:
    """Raise `Unsupported` if this machine cannot run the kernels. `device_kind` is cpu, cuda or xla."""
    if device_kind != "cuda":
        raise Unsupported(f"kernels liger needs an NVIDIA GPU, but this job runs on {device_kind}: {WAY_OUT}")


def apply(model: Model, *, predicts_tokens: bool) -> None:
    """Exchange modules of a loaded model for Liger's. The model keeps its parameters and its configuration.

    `predicts_tokens` is True for a language model. Raises `Unsupported` if Liger has no kernels for the model.
    """
    try:
        from liger_kernel.transformers.monkey_patch import (
            MODEL_TYPE_TO_APPLY_LIGER_FN,
            _apply_liger_kernel_to_instance,
        )

        check_model_type(model.config.model_type, MODEL_TYPE_TO_APPLY_LIGER_FN)
        _apply_liger_kernel_to_instance(model=model, **options(predicts_tokens=predicts_tokens))
    # Classes and names that the installed versions do not have, or that have no kernels.
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise Unsupported(
            f"kernels liger needs a liger-kernel with kernels for {type(model).__name__} ({error}): run `pip install "
            f"liger-kernel`, or {WAY_OUT}"
        ) from error


def check_model_type(model_type: str, supported: Any) -> None:
    """Raise `Unsupported` if a model type is not one of the supported ones. Liger itself only logs it."""
    if model_type not in supported:
        raise Unsupported(
            f"kernels liger does not support model type {model_type!r}, only decoders such as gemma2, llama, mistral, "
            f"phi3 and qwen3 (list: https://github.com/linkedin/Liger-Kernel): {WAY_OUT}"
        )


def options(*, predicts_tokens: bool) -> Dict[str, bool]:
    """Return Liger's arguments that switch kernels off.

    Liger's cross entropy would replace PyTorch's own function for the whole process, evaluation included. Its fused
    loss belongs to language models: it would replace the forward pass of a classifier by a language model's. In
    training it computes no logits; in evaluations, which read them, it does.
    """
    off = {"cross_entropy": False}
    return off if predicts_tokens else {**off, "fused_linear_cross_entropy": False}
