"""Compute a model's answers in three steps: read inputs, tokenize them, run them in padded batches.

The steps are separate, so that a server can reject a bad request immediately, and run the inputs of many requests in
one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from models.inference.batches import MOST_TOKENS, batches, evaluation_batches
from models.inference.tasks import TASKS, task_of
from models.loading.encoding import Encoded, Row
from models.loading.evaluation import UNKNOWN, Evaluation
from models.loading.loaded_model import Loaded, architecture, load
from training.contract.errors import InputError, nearest

RunEach = Callable[[Callable[[Any], list[Any]], Iterable[Any]], Iterable[list[Any]]]
"""Calls a function with each batch and returns the results in order, such as `map`."""


class Predictor:
    """A loaded model and its task. Any thread may call any step."""

    def __init__(self, name: str, task: ModuleType, loaded: Loaded) -> None:
        self.task = name
        """classification | question-answering | causal-lm."""
        self.loaded = loaded
        self.encode_may_refuse: bool = task.encode_may_refuse(loaded)
        """True if `encode` can raise `BadInputs` for inputs that `read` accepts."""
        self.answers_by_row: bool = task.ANSWERS_BY_ROW
        """True if answers follow from one run of the model for each row. False for generated text."""
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

    def outputs(self, rows: Sequence[Row]) -> list[Any]:
        """Run rows as one padded batch and return the model's output for each. Only if `answers_by_row`."""
        return list(self._task.outputs(self.loaded, rows))

    def answers(self, encoded: Sequence[Encoded], outputs: Sequence[Any]) -> list[Any]:
        """Return the answers of examples, given the outputs of all their rows. Only if `answers_by_row`."""
        return list(self._task.answers(self.loaded, encoded, outputs))

    def answer(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Run all three steps and return the answers, in the order of the inputs."""
        return self.run(self.encode(self.read(inputs, parameters)))

    def answer_each(self, encoded: Sequence[Encoded], run_each: RunEach = map) -> Iterator[tuple[int, Any]]:
        """Run any number of examples, and yield the position and the answer of each as soon as it is known.

        `run_each` is `map` or that of an executor. The rows are batched as in the model's evaluation, if that is known:
        in 16 bits, an answer depends a little on the padding and the number of rows of its batch.
        """
        most_tokens = MOST_TOKENS[self.loaded.device]
        if not self.answers_by_row:
            planned = batches([each.length for each in encoded], most_tokens)
            parts = [[encoded[at] for at in batch] for batch in planned]
            for batch, answers in zip(planned, run_each(self.run, parts), strict=True):
                yield from zip(batch, answers, strict=True)
            return
        rows = [(at, row) for at, each in enumerate(encoded) for row in each.rows]
        lengths, size = [len(row.ids) for _, row in rows], self.loaded.batch_size
        planned = batches(lengths, most_tokens) if size is None else evaluation_batches(lengths, size)
        results = run_each(self.outputs, [[rows[position][1] for position in batch] for batch in planned])
        outputs: list[Any] = [None] * len(rows)
        left = [len(each.rows) for each in encoded]
        starts = list(accumulate(left, initial=0))
        for batch, made in zip(planned, results, strict=True):
            for position, output in zip(batch, made, strict=True):
                outputs[position] = output
                left[rows[position][0]] -= 1
            done = [at for at in dict.fromkeys(rows[position][0] for position in batch) if not left[at]]
            own = [output for at in done for output in outputs[starts[at] : starts[at + 1]]]
            if done:
                yield from zip(done, self.answers([encoded[at] for at in done], own), strict=True)


def load_predictor(
    folder: Path,
    *,
    task: str | None = None,
    precision: str | None = None,
    evaluation: Evaluation = UNKNOWN,
    max_length: int | None = None,
    device: str | None = None,
) -> Predictor:
    """Return a predictor for a Transformers folder, which has configuration, weights and tokenizer.

    If `task` is None, it is read from the configuration. `precision` is auto (None), fastest, fp32, bf16 or fp16; see
    `models.loading.precision.choose_precision`. `evaluation` has the settings of the evaluation. `max_length` truncates
    inputs to fewer tokens than the model accepts; by default, it is that of the evaluation. Raises `InputError`.
    """
    name = task or task_of(architecture(folder))
    if name not in TASKS:
        raise InputError(f"task is {name!r}: it must be one of {', '.join(TASKS)}.{nearest(name, TASKS)}")
    module = TASKS[name]
    loaded = load(
        folder,
        module.HEAD,
        precision=precision,
        evaluation=evaluation,
        max_length=evaluation.max_length if max_length is None else max_length,
        device=device,
    )
    return Predictor(name, module, loaded)
