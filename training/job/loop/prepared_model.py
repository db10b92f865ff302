"""Changes to a loaded model before a training, which leave the model's state dictionary as it was."""

from typing import Any

from compilation import float8, liger
from loop.occurring_rows import use_occurring_rows
from loop.padding_free import use_padding_free
from settings.job_settings import Settings
from tasks.token_loss import use_token_loss


def prepare_after_trial(model: Any, settings: Settings) -> None:
    """Make the changes that must wait for the values of `auto`: embeddings of the tokens that occur, 8-bit layers, and
    layers without padding.

    Raises `Unsupported` if the model cannot have them.
    """
    use_occurring_rows(model, settings)
    if settings.precision == "fp8":
        float8.convert(model)
    use_padding_free(model, settings)


def prepare_before_trial(model: Any, settings: Settings) -> None:
    """Replace modules by ones that need less memory: Liger's kernels, and on a CPU our loss for language models.

    Without this, a trial of `auto` could need more memory than the training. Raises `Unsupported`
    if Liger has no kernels for the model.
    """
    if settings.arguments.kernels == "liger":
        liger.apply(model, settings.arguments.task)
    if _can_use_token_loss(settings):
        use_token_loss(model)


def _can_use_token_loss(settings: Settings) -> bool:
    """Return whether this is a language model on a CPU whose loss is not compiled with it."""
    arguments = settings.arguments
    is_eager = arguments.compiler == "none" or (arguments.compiler, arguments.compile_scope) == ("inductor", "layers")
    return arguments.task == "causal-lm" and settings.device_kind == "cpu" and is_eager
