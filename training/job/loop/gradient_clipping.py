"""Clip gradients on a CPU in the step of the fused optimizer, which reads them anyway."""

from typing import Any, List, Optional

import torch

EPSILON = 1e-6
"""Added to the norm before gradients are scaled, as in `torch.nn.utils.clip_grad_norm_`."""


class OptimizerClipping:
    """Clips the gradients of a model to a norm, together with the optimizer's step."""

    def __init__(self, model: Any, optimizer: Any, max_norm: float) -> None:
        self._parameters = list(model.parameters())
        self._optimizer, self._max_norm = optimizer, max_norm
        # A step that was not clipped must not be scaled.
        optimizer.register_step_post_hook(lambda *_: setattr(optimizer, "grad_scale", None))

    def clip(self) -> Any:
        """Let the next step divide the gradients if their norm exceeds the maximum. Return the norm, a tensor."""
        norm = total_norm([each.grad for each in self._parameters if each.grad is not None])
        # Where optimizers with a `GradScaler` find the factor by which the loss was multiplied.
        self._optimizer.grad_scale = ((norm + EPSILON) / self._max_norm).clamp(min=1.0)
        return norm


def optimizer_clipping(model: Any, optimizer: Any, max_norm: float) -> Optional[OptimizerClipping]:
    """Return the clipping for a model and its optimizer. None if the optimizer cannot scale gradients on a CPU."""
    optimizer = getattr(optimizer, "optimizer", optimizer)
    is_fused = isinstance(optimizer, torch.optim.AdamW) and bool(optimizer.defaults.get("fused"))
    # DTensors of a sharded model, and other devices, have their own ways.
    is_plain = all(
        type(each.data) is torch.Tensor and each.device.type == "cpu" and each.dtype == torch.float32
        for each in model.parameters()
    )
    return OptimizerClipping(model, optimizer, max_norm) if is_fused and is_plain else None


def total_norm(gradients: List[Any]) -> Any:
    """Return the norm of all gradients together, a tensor without dimensions."""
    if not gradients:
        return torch.zeros(())
    # A dot product uses all cores; PyTorch's norm of a contiguous tensor takes twice as long.
    squares = [
        torch.dot(each.view(-1), each.view(-1)) if each.is_contiguous() else torch.linalg.vector_norm(each).square()
        for each in gradients
    ]
    return torch.stack(squares).sum().sqrt()
