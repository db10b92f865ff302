"""Changes to a loaded model and to PyTorch before a training, which leave the model's state dictionary as it was."""

from typing import Any

import torch

from compilation import float8, liger
from loop.occurring_rows import use_occurring_rows
from loop.padding_free import use_padding_free
from settings.job_settings import Settings
from tasks.token_loss import use_token_loss


def prepare_model(model: Any, settings: Settings) -> None:
    """Apply what the settings ask for: kernels, 8-bit layers, smaller embeddings, layers without padding and losses.

    A GPU's cuDNN is left out of attention if batches have many shapes: those of evaluations are the most varied.

    Raises `Unsupported` if the model cannot have them.
    """
    use_occurring_rows(model, settings)
    if settings.arguments.kernels == "liger":
        liger.apply(model, settings.arguments.task)
    if settings.precision == "fp8":
        float8.convert(model)
    use_padding_free(model, settings)
    if _can_use_token_loss(settings):
        use_token_loss(model)
    if settings.device_kind == "cuda" and not settings.eval_padding.is_static:
        leave_out_cudnn_attention()


def _can_use_token_loss(settings: Settings) -> bool:
    """Return whether this is a language model on a CPU whose loss is not compiled with it."""
    arguments = settings.arguments
    is_eager = arguments.compiler == "none" or (arguments.compiler, arguments.compile_scope) == ("inductor", "layers")
    return arguments.task == "causal-lm" and settings.device_kind == "cpu" and is_eager


def leave_out_cudnn_attention() -> None:
    """Compute scaled dot products with PyTorch's other kernels.

    cuDNN makes a plan for each new shape of batch, and batches padded to their longest row have many shapes: on an
    H200, a plan took 0.15 s, as long as several steps, and the first use of another kernel 0.0006 s. After that, either
    can be faster up to 128 tokens; at 384, cuDNN is twice as fast (docs/decisions/0204).
    """
    # Earlier versions of torch do not use cuDNN for attention.
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
