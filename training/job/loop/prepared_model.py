"""Changes to a loaded model before a training, which leave the model's state dictionary as it was."""

from typing import Any

from compilation import float8, liger
from loop.occurring_rows import use_occurring_rows
from loop.padding_free import use_padding_free
from settings.job_settings import Settings
from tasks.token_loss import use_token_loss


def prepare_model(model: Any, settings: Settings) -> None:
    """Apply what the settings ask for: kernels, 8-bit layers, smaller embeddings and layers without padding.

    Raises `Unsupported` if the model cannot have them.
    """
    use_occurring_rows(model, settings)
    if settings.arguments.kernels == "liger":
        liger.apply(model, settings.arguments.task)
    if settings.precision == "fp8":
        float8.convert(model)
    use_padding_free(model, settings)


def prepare_loss(model: Any, settings: Settings) -> None:
    """On a CPU, compute the loss of language models a few tokens at a time.

    Call this before a trial of `auto`, which could otherwise need more memory than the training.
    """
    if _can_use_token_loss(settings):
        use_token_loss(model)


def _can_use_token_loss(settings: Settings) -> bool:
    """Return whether this is a language model on a CPU whose loss is not compiled with it."""
    arguments = settings.arguments
    is_eager = arguments.compiler == "none" or (arguments.compiler, arguments.compile_scope) == ("inductor", "layers")
    return arguments.task == "causal-lm" and settings.device_kind == "cpu" and is_eager
