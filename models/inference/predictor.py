"""A model that answers: inputs are read, tokenised, and run in padded batches.

Three steps, so that a server can refuse what is wrong before it waits for others, and put together in one batch what
came from many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from models.inference.tasks import TASKS, task_of
from models.loading.encoding import Encoded
from models.loading.loaded_model import Loaded, architecture, load
from training.contract.errors import InputError, nearest


class Predictor:
    """A loaded model and its task. All three steps may be called from any thread."""

    def __init__(self, name: str, task: ModuleType, loaded: Loaded) -> None:
        self.task = name
        """classification | question-answering | causal-lm."""
        self.loaded = loaded
        self.encode_may_refuse: bool = task.encode_may_refuse(loaded)
        """Whether `encode` raises `BadInputs` for some inputs that `read` lets pass."""
        self._task = task

    def read(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return what is asked, one example an input: `inputs` is one input or a list of them.

        Raises `BadInputs` with one sentence on what is wrong.
        """
        return list(self._task.read(self.loaded, inputs, parameters))

    def encode(self, examples: Sequence[Any]) -> list[Encoded]:
        """Tokenise the examples, in order. Raises `BadInputs` where one leaves no room for what it is about."""
        return list(self._task.encode(self.loaded, examples))

    def run(self, encoded: Sequence[Encoded]) -> list[Any]:
        """Return the answers, in order, from one padded batch: values that JSON knows."""
        return list(self._task.run(self.loaded, encoded))

    def answer(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the answers to the inputs, in order: all three steps."""
        return self.run(self.encode(self.read(inputs, parameters)))


def load_predictor(
    folder: Path,
    *,
    task: str | None = None,
    precision: str | None = None,
    evaluated_precision: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
) -> Predictor:
    """Return the predictor of a Transformers folder: configuration, weights and tokenizer.

    `task` is read from the configuration where it is None. `precision` is auto (None), fp32, bf16 or fp16, see
    `models.loading.precision.chosen`; `evaluated_precision` is what the model was scored in, where that is known.
    `max_length` cuts inputs to fewer tokens than the model takes: to those it was trained with, say. Raises
    `InputError`.
    """
    name = task or task_of(architecture(folder))
    if name not in TASKS:
        raise InputError(f"task is {name!r}: it must be one of {', '.join(TASKS)}.{nearest(name, TASKS)}")
    module = TASKS[name]
    loaded = load(
        folder,
        module.HEAD,
        precision=precision,
        evaluated_precision=evaluated_precision,
        max_length=max_length,
        device=device,
    )
    return Predictor(name, module, loaded)
