"""Compiling everything that a training will run before its first step, so that no step's time holds a compilation."""

from typing import Any, List, Sequence

import numpy as np

from checkpoints.random_states import random_states_kept
from data.batch_shapes import Shape, representatives
from data.channels import Row
from data.padding import Collator, Padding
from settings.job_settings import Settings


def is_dynamic(settings: Settings, shapes: Sequence[Shape]) -> bool:
    """Tell whether one program is to serve all lengths.

    The processor runs symbolic lengths as fast as fixed ones, and compiles them once.
    """
    lengths = {shape.length for shape in shapes}
    return not settings.padding.is_static or (settings.device_kind == "cpu" and len(lengths) > 1)


def compile_shapes(trainer: Any, model: Any, shapes: Sequence[Shape], settings: Settings, dynamic: bool) -> None:
    """Run each shape that is a program of its own forward and backward on the trainer's own path.

    `model` is the trainer's, wrapped for several processes or not. Gradients and random states are as before
    afterwards: the training that follows does not change.
    """
    task = settings.task
    # The largest first: when memory does not suffice, that shows at once.
    chosen = representatives(shapes) if dynamic else shapes[::-1]
    # Set by the training loop for every step; the first has not come yet.
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    with random_states_kept():
        for shape in chosen:
            collator = Collator(Padding("max_length", shape.length), settings.train.facts, task.targets)
            batch = collator(synthetic_rows(shape, task.COLUMNS, settings.train.rows.types is not None))
            trainer.training_step(model, {name: tensor.to(trainer.args.device) for name, tensor in batch.items()})
    model.zero_grad()


def synthetic_rows(shape: Shape, columns: Sequence[str], has_types: bool) -> List[Row]:
    """Return rows that make a batch of the shape; their content is of no importance, but for one that is shorter."""
    rows = []
    for at in range(shape.rows):
        tokens = np.zeros(shape.length - int(shape.is_masked and at == shape.rows - 1), dtype=np.int64)
        row: Row = {"input_ids": tokens, **dict.fromkeys(columns, 0)}
        rows.append({**row, "token_type_ids": tokens} if has_types else row)
    return rows
