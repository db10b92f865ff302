"""Fast dropout on a CPU: random bits are drawn in bulk.

Recent versions of PyTorch draw one random number for each element, on one core. That takes a fifth of a BERT's training
step. Here, each draw gives 64 bits, and an element uses 16 of them. The generator is PyTorch's, so checkpoints
restore it.
"""

from typing import Any, Tuple

import torch

_TORCH_DROPOUT = torch.nn.functional.dropout

ONE_IN_BF16 = 0x3F80
"""Bits of 1.0 in bf16."""
LEVELS = 1 << 16
"""The dropout rate is rounded to a multiple of 1 / LEVELS. Elements are scaled by the rounded rate."""


def resolved(requested: str, device_kind: str, compiles: bool) -> str:
    """Return the implementation that a job uses: `bulk` or `torch`. `auto` selects bulk wherever it is available."""
    is_available = device_kind == "cpu" and (HAS_CUSTOM_OPS or not compiles)
    return "bulk" if requested != "torch" and is_available else "torch"


def install(compiles: bool = False) -> None:
    """Replace `torch.nn.functional.dropout`, which every dropout module calls, with the bulk version on a CPU.

    A compiler needs the draw registered as an operation. Start-up is billed, so other jobs skip the registration.
    """
    if compiles and HAS_CUSTOM_OPS:
        _register()
    original = _TORCH_DROPOUT

    def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        dropped = round(min(max(p, 0.0), 1.0) * LEVELS)
        # PyTorch handles invalid rates, and rates that round to 0 or 1.
        if not training or not 0 < dropped < LEVELS or inplace or input.device.type != "cpu":
            return original(input, p, training, inplace)
        return _dropout(input, dropped)

    torch.nn.functional.dropout = dropout


def remove() -> None:
    """Restore PyTorch's own dropout."""
    torch.nn.functional.dropout = _TORCH_DROPOUT


def draw_kept(shape: torch.Size, dropped: int) -> torch.Tensor:
    """Return a mask with this shape. Each element is False with probability `dropped` / 65536."""
    return (_draw_words(shape.numel()) >= dropped - LEVELS // 2).view(shape)


def draw_factors(count: int, dropped: int) -> torch.Tensor:
    """Return `count` factors in bf16: 0 with probability `dropped` / 65536, else 1. They are drawn as `draw_kept` does.

    All operations have 16 bits per element, so they fill whole vector registers: with masks of one byte, they took
    three times as long.
    """
    return _draw_words(count).ge_(dropped - LEVELS // 2).mul_(ONE_IN_BF16).view(torch.bfloat16)


def scale_of(dropped: int) -> float:
    """Return the factor of the elements that are kept."""
    return LEVELS / (LEVELS - dropped) if dropped < LEVELS else 0.0


def _draw_words(count: int) -> torch.Tensor:
    return torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]


class _BulkDropout(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, input: torch.Tensor, dropped: int) -> torch.Tensor:
        context.factors, context.scale = draw_factors(input.numel(), dropped).view(input.shape), scale_of(dropped)
        return _masked(input, context.factors, context.scale)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, None]:
        return _masked(gradient, context.factors, context.scale), None


def _masked(values: torch.Tensor, factors: torch.Tensor, scale: float) -> torch.Tensor:
    # A product of two precisions would be computed element by element.
    return (values * factors.to(values.dtype)).mul_(scale)


def _dropout(input: torch.Tensor, dropped: int) -> torch.Tensor:
    if is_compiling():
        # The compiler treats the draw as one opaque operation and fuses the product with its neighbours.
        return input * torch.ops.trainfare.draw_kept(input, dropped) * scale_of(dropped)
    return _BulkDropout.apply(input, dropped)


def is_compiling() -> bool:
    """Return True while a compiler traces the model."""
    return hasattr(torch, "compiler") and getattr(torch.compiler, "is_compiling", bool)()


def _register() -> None:
    @torch.library.custom_op("trainfare::draw_kept", mutates_args=())  # type: ignore[untyped-decorator]
    def draw(like: torch.Tensor, dropped: int) -> torch.Tensor:
        return draw_kept(like.shape, dropped)

    @draw.register_fake  # type: ignore[untyped-decorator]
    def _(like: torch.Tensor, dropped: int) -> torch.Tensor:
        return torch.empty(like.shape, dtype=torch.bool, device=like.device)


# Custom operations exist since torch 2.4. With earlier versions, compiled models keep PyTorch's own dropout.
HAS_CUSTOM_OPS = hasattr(getattr(torch, "library", None), "custom_op")
