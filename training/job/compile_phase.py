"""Compiling everything that a training will run before its first step, so that no step's time holds a compilation."""

from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from channels import Row
from random_states import random_states_kept
from shapes import Shape

Collate = Callable[[Sequence[Row]], Dict[str, Any]]


def compile_shapes(
    trainer: Any,
    shapes: Sequence[Shape],
    collator_of: Callable[[int], Collate],
    columns: Sequence[str],
    has_types: bool,
) -> None:
    """Run each shape forward and backward on the trainer's own path.

    `collator_of` gives the collator that pads to a length; `columns` are those of the task's rows. Gradients and random
    states are as before afterwards: the training that follows does not change.
    """
    model = trainer.model_wrapped
    # Set by the training loop for every step; the first has not come yet.
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    with random_states_kept():
        for shape in shapes:
            batch = collator_of(shape.length)(synthetic_rows(shape, columns, has_types))
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
