"""Changes to a loaded model before a training, which leave what is saved as it was."""

from dataclasses import replace
from typing import Any

import transformers

from training.job.compilation import blockwise, float8, liger
from training.job.loop.occurring_tokens import use_occurring_tokens
from training.job.loop.padding_free import use_padding_free
from training.job.measuring.hardware import disable_cudnn_attention
from training.job.settings.job_settings import Settings
from training.job.weights.pretrained import set_attention


def prepare(model: Any, settings: Settings) -> Settings:
    """Make the changes: Liger's kernels, attention, 8-bit layers, and layers without padding.

    Return the settings with the attention in use. Raises `Unsupported` if the model cannot have the changes.
    """
    if settings.arguments.kernels == "liger":
        liger.apply(model, predicts_tokens=settings.task.predicts_tokens)
    settings = replace(settings, attention=_use_attention(model, settings))
    use_occurring_tokens(model, settings)
    if settings.precision == "fp8":
        float8.convert(model)
    use_padding_free(model, settings)
    return settings


def _use_attention(model: Any, settings: Settings) -> str:
    """Choose what `auto` leaves to the model, and return the attention in use. With `padding: none`, it stays `auto`.

    On a GPU, transformers has chosen. On a CPU, blockwise attention replaces eager where the model can use it.
    """
    compiles = settings.compiler.compiles_here
    if settings.device_kind == "cuda":
        if not settings.eval_padding.is_static:
            # cuDNN plans every new shape, and evaluations have at least as many shapes as the training.
            disable_cudnn_attention()
        in_use = getattr(model.config, "_attn_implementation", None)
        is_open = settings.attention == "auto" and settings.arguments.padding != "none"
        return str(in_use) if is_open and in_use else settings.attention
    if settings.attention == blockwise.NAME:
        blockwise.register(compiles)
    is_open = settings.arguments.attention == "auto" and settings.attention == "eager"
    if is_open and settings.device_kind == "cpu" and _has_blockwise(model) and blockwise.register(compiles):
        return blockwise.NAME if set_attention(model, blockwise.NAME) else settings.attention
    return settings.attention


def _has_blockwise(model: Any) -> bool:
    version = int(transformers.__version__.partition(".")[0])
    return version >= 5 and model.config.model_type in blockwise.MODEL_TYPES
