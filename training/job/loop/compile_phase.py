"""Before the first step, compile everything that a training will run, so that no step includes a compilation."""

from typing import Any, List, Sequence

import numpy as np

from training.job.checkpoints.random_states import preserve_random_states
from training.job.data.channels import Row
from training.job.data.padding import Collator, Padding, Shape, representatives
from training.job.settings.declared import CUDA_GRAPH_MODES
from training.job.settings.job_settings import Settings

RUNS_WITH_CUDA_GRAPHS = 3
"""torch.compile runs a program once without a graph and records the graph in the second run. The third only replays it
(torch/_inductor/cudagraph_trees.py)."""


def is_dynamic(settings: Settings, shapes: Sequence[Shape]) -> bool:
    """Return True if one program should serve all lengths.

    The argument `compile_dynamic` decides if it is set. Otherwise one program serves all if the padding allows any
    length, and on a CPU as soon as there are several lengths: there, programs with symbolic lengths run as fast as
    those with fixed lengths, and are compiled only once.
    """
    if settings.arguments.compile_dynamic is not None:
        return settings.arguments.compile_dynamic
    lengths = {shape.length for shape in shapes}
    return not settings.padding.is_static or (settings.device_kind == "cpu" and len(lengths) > 1)


def compile_shapes(trainer: Any, model: Any, shapes: Sequence[Shape], settings: Settings, dynamic: bool) -> None:
    """Run one or more steps, through the trainer, for each shape that needs a separate program.

    `model` is the trainer's model, with or without the wrapper for several processes. Gradients are cleared and random
    states restored, so the training itself does not change.
    """
    task = settings.task
    # Largest first: if the memory is too small, this fails immediately.
    chosen = representatives(shapes) if dynamic else shapes[::-1]
    # Trainer's loop sets this before every step, but the first step has not begun.
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    with preserve_random_states():
        for shape in chosen:
            collator = Collator(Padding("max_length", shape.length), settings.train.metadata, task.targets)
            batch = collator(synthetic_rows(shape, task.COLUMNS, settings.train.rows.types is not None))
            for _ in range(steps_per_shape(settings.device_kind, settings.arguments.compile_mode)):
                trainer.training_step(model, {name: tensor.to(trainer.args.device) for name, tensor in batch.items()})
                model.zero_grad()


def steps_per_shape(device_kind: str, compile_mode: str) -> int:
    """Return how many steps a shape needs until nothing more is compiled or recorded. Only a GPU has CUDA graphs."""
    return RUNS_WITH_CUDA_GRAPHS if device_kind == "cuda" and compile_mode in CUDA_GRAPH_MODES else 1


def synthetic_rows(shape: Shape, columns: Sequence[str], has_types: bool) -> List[Row]:
    """Return rows that form a batch of this shape.

    Their content does not matter. In a masked shape, the last row is one token shorter than the others.
    """
    rows = []
    for at in range(shape.rows):
        tokens = np.zeros(shape.length - int(shape.is_masked and at == shape.rows - 1), dtype=np.int64)
        row: Row = {"input_ids": tokens, **dict.fromkeys(columns, 0)}
        rows.append({**row, "token_type_ids": tokens} if has_types else row)
    return rows
