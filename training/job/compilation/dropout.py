"""Dropout on a processor, with its random bits drawn in bulk.

PyTorch draws one random number an element, on one core: a fifth of the time of a BERT's training step. Here one call
fills 64 bits at a time and every element takes 16 of them, from the same generator, so that checkpoints restore it.
"""

from typing import Any, Tuple

import torch

LEVELS = 1 << 16
"""An element is dropped with a probability of so many parts; it is scaled by what this rounds the rate to."""


def install() -> None:
    """Let `torch.nn.functional.dropout`, and with it every dropout module, draw in bulk on the processor."""
    functional = torch.nn.functional
    torchs_own = functional.dropout

    def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        dropped = round(min(max(p, 0.0), 1.0) * LEVELS)
        # Rates that are wrong, or round to nothing or everything, are PyTorch's to answer for.
        if not training or not 0 < dropped < LEVELS or inplace or input.device.type != "cpu":
            return torchs_own(input, p, training, inplace)
        return _dropout(input, dropped)

    functional.dropout = dropout


def draw_kept(shape: torch.Size, dropped: int) -> torch.Tensor:
    """Return a mask of the shape: false with a probability of `dropped` / 65536."""
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (words.view(torch.int16)[:count] >= dropped - LEVELS // 2).view(shape)


class _BulkDropout(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, input: torch.Tensor, dropped: int) -> torch.Tensor:
        context.kept, context.scale = draw_kept(input.shape, dropped), LEVELS / (LEVELS - dropped)
        return _masked(input, context.kept, context.scale)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, None]:
        return _masked(gradient, context.kept, context.scale), None


def _masked(values: torch.Tensor, kept: torch.Tensor, scale: float) -> torch.Tensor:
    if hasattr(torch.ops.aten, "native_dropout_backward"):
        return torch.ops.aten.native_dropout_backward(values, kept, scale)
    return values * kept * scale


def _dropout(input: torch.Tensor, dropped: int) -> torch.Tensor:
    if _is_compiling():
        # To the compiler the draw is one closed operation; the product it fuses with its neighbours.
        return input * torch.ops.trainfare.draw_kept(input, dropped) * (LEVELS / (LEVELS - dropped))
    return _BulkDropout.apply(input, dropped)


def _is_compiling() -> bool:
    return hasattr(torch, "compiler") and getattr(torch.compiler, "is_compiling", bool)()


def _register() -> None:
    @torch.library.custom_op("trainfare::draw_kept", mutates_args=())  # type: ignore[untyped-decorator]
    def draw(like: torch.Tensor, dropped: int) -> torch.Tensor:
        return draw_kept(like.shape, dropped)

    @draw.register_fake  # type: ignore[untyped-decorator]
    def _(like: torch.Tensor, dropped: int) -> torch.Tensor:
        return torch.empty(like.shape, dtype=torch.bool, device=like.device)


# With torch 2.4; compilers before it are left PyTorch's own dropout.
CAN_COMPILE = hasattr(getattr(torch, "library", None), "custom_op")
if CAN_COMPILE:
    _register()
