"""Compiling everything that a training will run before its first step, so that no step's time holds a compilation."""

import random
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Sequence

import numpy as np
import torch

from shapes import Shape


def compile_shapes(trainer: Any, shapes: Sequence[Shape], has_types: bool) -> None:
    """Run each shape forward and backward on the trainer's own path.

    Gradients and random states are as before afterwards: the training that follows does not change.
    """
    model = trainer.model_wrapped
    # Set by the training loop for every step; the first has not come yet.
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    with _random_states_kept():
        for shape in shapes:
            trainer.training_step(model, synthetic_batch(shape, has_types, trainer.args.device))
    model.zero_grad()


def synthetic_batch(shape: Shape, has_types: bool, device: Any) -> Dict[str, torch.Tensor]:
    """Return a batch of the shape; its content is of no importance, but for the mask."""
    ids = torch.zeros((shape.rows, shape.length), dtype=torch.int64)
    mask = torch.ones_like(ids)
    if shape.is_masked:
        mask[-1, -1] = 0
    batch = {"input_ids": ids, "attention_mask": mask, "labels": torch.zeros(shape.rows, dtype=torch.int64)}
    if has_types:
        batch["token_type_ids"] = torch.zeros_like(ids)
    return {name: tensor.to(device) for name, tensor in batch.items()}


@contextmanager
def _random_states_kept() -> Iterator[None]:
    python, numpy_state, processor = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    yield
    random.setstate(python)
    np.random.set_state(numpy_state)
    torch.set_rng_state(processor)
    if gpus:
        torch.cuda.set_rng_state_all(gpus)
