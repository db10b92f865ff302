"""Answers of a model, in three steps: read inputs, tokenize them, run them in padded batches.

The steps are apart so that a server can refuse a bad request before it waits, and run the inputs of many requests in
one batch.
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
        """True if `encode` raises `BadInputs` for some inputs that `read` accepts."""
        self._task = task

    def read(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return one example for each input; `inputs` is one input or a list of them.

        Raises `BadInputs` with one sentence on what is wrong.
        """
        return list(self._task.read(self.loaded, inputs, parameters))

    def encode(self, examples: Sequence[Any]) -> list[Encoded]:
        """Tokenize the examples, in order. Raises `BadInputs` for an example that does not fit the model."""
        return list(self._task.encode(self.loaded, examples))

    def run(self, encoded: Sequence[Encoded]) -> list[Any]:
        """Run the examples as one padded batch and return their answers, in order, as JSON values."""
        return list(self._task.run(self.loaded, encoded))

    def answer(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the answers to the inputs, in order. Runs all three steps."""
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

    A `task` of None is read from the configuration. `precision` is auto (None), fp32, bf16 or fp16; see
    `models.loading.precision.choose_precision`. `evaluated_precision` is the precision of the evaluation, if known.
    `max_length` cuts inputs to fewer tokens than the model takes, such as those of the training. Raises `InputError`.
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
