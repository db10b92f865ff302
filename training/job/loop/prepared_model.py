"""Changes to a loaded model before it trains, which leave its state dictionary as it was."""

from typing import Any

from compilation import float8, liger
from loop.occurring_rows import use_occurring_rows
from loop.padding_free import use_padding_free
from settings.job_settings import Settings


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
