"""One update of the weights as Trainer makes it, outside of its loop: what is called how in which version."""

from typing import Any

import torch


def optimizer_step(trainer: Any) -> None:
    """Clip the gradients as the arguments say, update the weights, and let go of the gradients."""
    accelerator, scaler = getattr(trainer, "accelerator", None), getattr(trainer, "scaler", None)
    optimizer, model, norm = trainer.optimizer, trainer.model_wrapped, trainer.args.max_grad_norm
    if scaler is not None:
        scaler.unscale_(optimizer)
    if norm > 0:
        clip = accelerator.clip_grad_norm_ if accelerator else torch.nn.utils.clip_grad_norm_
        clip(model.parameters(), norm)
    if scaler is not None:
        scaler.step(optimizer)
        scaler.update()
    elif trainer.args.device.type == "xla" and accelerator is None:
        import torch_xla.core.xla_model as xm

        xm.optimizer_step(optimizer)
    else:
        optimizer.step()
    model.zero_grad()
