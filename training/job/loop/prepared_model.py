"""Changes to a loaded model before it trains, which leave its state dictionary as it was."""

from typing import Any

from compilation import float8, liger
from loop.occurring_rows import use_occurring_rows
from settings.job_settings import Settings


def prepare_model(model: Any, settings: Settings) -> None:
    """Apply the kernels, the 8-bit layers and the smaller embeddings that the settings ask for.

    Raises `Unsupported` if the model has no such kernels or layers.
    """
    use_occurring_rows(model, settings)
    if settings.arguments.kernels == "liger":
        liger.apply(model, settings.arguments.task)
    if settings.precision == "fp8":
        float8.convert(model)
