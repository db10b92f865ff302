"""Compute a model's answers in three steps: read inputs, tokenize them, run them in padded batches.

The steps are separate, so that a server can reject a bad request immediately, and run the inputs of many requests in
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
    """A loaded model and its task. Any thread may call any step."""

    def __init__(self, name: str, task: ModuleType, loaded: Loaded) -> None:
        self.task = name
        """classification | question-answering | causal-lm."""
        self.loaded = loaded
        self.encode_may_refuse: bool = task.encode_may_refuse(loaded)
        """True if `encode` can raise `BadInputs` for inputs that `read` accepts."""
        self._task = task

    def read(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return one example per input. `inputs` is one input or a list of inputs.

        Raises `BadInputs` with one sentence that describes the error.
        """
        return list(self._task.read(self.loaded, inputs, parameters))

    def encode(self, examples: Sequence[Any]) -> list[Encoded]:
        """Tokenize the examples, in order. Raises `BadInputs` for an example that does not fit the model."""
        return list(self._task.encode(self.loaded, examples))

    def run(self, encoded: Sequence[Encoded]) -> list[Any]:
        """Run the examples as one padded batch and return their answers, in order, as JSON values."""
        return list(self._task.run(self.loaded, encoded))

    def answer(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Run all three steps and return the answers, in the order of the inputs."""
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
    """Return a predictor for a Transformers folder, which has configuration, weights and tokenizer.

    If `task` is None, it is read from the configuration. `precision` is auto (None), fp32, bf16 or fp16; see
    `models.loading.precision.choose_precision`. `evaluated_precision` is the precision of the evaluation, if known.
    `max_length` truncates inputs to fewer tokens than the model accepts, for example to the length used in training.
    Raises `InputError`.
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
