"""Matrix products in 8 bits: float8 training of torchao, on top of bf16 by autocast.

torchao exchanges linear layers for ones that scale and round their input, weight and gradient to 8 bits before each
product. The weights themselves stay in single precision, under the same names, so optimizer, checkpoints and saved
models are those of a training in bf16.
"""

from contextlib import contextmanager
from types import MethodType
from typing import Any, Iterator, List

import torch
from torch import nn

from training.job.reporting.errors import Unsupported

MULTIPLE = 16
"""Divisor of both dimensions of a matrix that tensor cores multiply in 8 bits (`torch._scaled_mm`)."""
NOT_CONVERTED = frozenset({"experts", "gate", "router"})
"""Names of modules in mixtures of experts. A batch may have no token for an expert, and an empty matrix has no scale.
The choice of an expert is sensitive to rounding."""


def linears_to_convert(model: Any) -> List[str]:
    """Return the names of the linear layers that compute in 8 bits: those of the model's repeated layers.

    Heads and embeddings stay in 16 bits. The loss reads the outputs of a head, which may be few.
    """
    stacks = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, nn.ModuleList))
    return [
        name
        for name, module in model.named_modules()
        # Subclasses may use their weight in other ways.
        if type(module) is nn.Linear
        and name.startswith(stacks)
        and not NOT_CONVERTED.intersection(name.split("."))
        and not any(size % MULTIPLE for size in module.weight.shape)
    ]


def convert(model: Any, emulate: bool = False) -> None:
    """Exchange the linear layers of a loaded model, which keeps its parameters. `emulate` computes on any device.

    Raises `Unsupported` if the model has no layer to exchange, or if torchao does not fit the installed torch.
    """
    names = frozenset(linears_to_convert(model))
    if not names:
        raise Unsupported(
            f"precision fp8 cannot speed up model type {model.config.model_type!r}: its repeated layers have no "
            f"torch.nn.Linear whose dimensions are multiples of {MULTIPLE}; use precision bf16"
        )
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    # torchao reads names of torch that older versions do not have.
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"precision fp8: the installed torchao does not work with torch {torch.__version__} ({error}): install "
            "another version of torchao, or use precision bf16"
        ) from error
    # The gradient of a weight is a sum over the tokens of a batch, whose number is not always a multiple of 16.
    config = Float8LinearConfig(pad_inner_dim=True, emulate=emulate)
    convert_to_float8_training(model, module_filter_fn=lambda _, name: name in names, config=config)


@contextmanager
def in_16_bits(model: Any) -> Iterator[None]:
    """Compute the exchanged layers as plain linear layers inside the context.

    Evaluations use it, because the saved model is a plain one: it is scored as it will be used.
    """
    layers = [module for module in model.modules() if type(module).__name__ == "Float8Linear"]
    for layer in layers:
        layer.forward = MethodType(nn.Linear.forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
