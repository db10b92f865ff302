"""Compute a model's answers in three steps: read inputs, tokenize them, run them in padded batches.

The steps are separate, so that a server can reject a bad request immediately, and run the inputs of many requests in
one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from models.inference.evaluation import UNKNOWN, Evaluation
from models.inference.loaded_model import Loaded, load
from models.inference.tasks import read_task
from training.contract.errors import InputError, nearest
from training.job.tasks import TASKS, Task
from training.job.tasks.inputs import EncodedInput

MOST_TOKENS = {"cpu": 512, "cuda": 65_536}
"""Most tokens of a batch, including padding, by device. On a CPU, larger batches are not faster: at this size a core
multiplies at full speed, and the activations still fit its cache (measured with MiniLM, 128 to 4,096 tokens)."""

RunEach = Callable[[Callable[[Any], list[Any]], Iterable[Any]], Iterable[list[Any]]]
"""Calls a function with each batch and returns the results in order, such as `map`."""


class Predictor:
    """A loaded model and its task. Any thread may call any step."""

    def __init__(self, task: Task, loaded: Loaded) -> None:
        self.task = task.name
        """Name of the task."""
        self.loaded = loaded
        self.encode_may_refuse: bool = task.encode_may_refuse(loaded)
        """True if `encode` can raise `BadInputs` for inputs that `read` accepts."""
        self._task = task

    def read(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return one example per input. `inputs` is one input or a list of inputs.

        Raises `BadInputs` with one sentence that describes the error.
        """
        return list(self._task.read_inputs(inputs, parameters))

    def encode(self, examples: Sequence[Any]) -> list[EncodedInput]:
        """Tokenize the examples, in order. Raises `BadInputs` for an example that does not fit the model."""
        return self._task.encode_inputs(self.loaded, examples)

    def answer(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Run all three steps and return the answers, as JSON values, in the order of the inputs."""
        return self.answer_encoded(self.encode(self.read(inputs, parameters)))

    def answer_encoded(self, encoded: Sequence[EncodedInput], run_each: RunEach = map) -> list[Any]:
        """Run any number of tokenized inputs, and return the answers in their order.

        `run_each` is `map` or an executor's `map`. The rows are batched as in the model's evaluation, if that is known:
        in 16 bits, an answer depends a little on the padding and the number of rows of its batch.
        """
        task, loaded = self._task, self.loaded
        run: Callable[..., list[Any]] = task.outputs
        items: list[Any] = [row for each in encoded for row in each.rows]
        lengths, size = [len(row.ids) for row in items], loaded.batch_size
        if task.generates:
            items, lengths, size, run = list(encoded), [each.length for each in encoded], None, task.generate
        most_tokens = MOST_TOKENS[loaded.device]
        planned = batches(lengths, most_tokens) if size is None else evaluation_batches(lengths, size)
        results = run_each(partial(run, loaded), [[items[at] for at in batch] for batch in planned])
        outputs: list[Any] = [None] * len(items)
        for batch, made in zip(planned, results, strict=True):
            for at, output in zip(batch, made, strict=True):
                outputs[at] = output
        return outputs if task.generates else task.answers(loaded, encoded, outputs)


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
    `choose_precision`. `evaluation` has the settings of the evaluation. `max_length` truncates inputs to fewer tokens
    than the model accepts; by default, it is the evaluation's. Raises `InputError`.
    """
    name = task or read_task(folder)
    if name not in TASKS:
        raise InputError(f"task is {name!r}: it must be one of {', '.join(TASKS)}.{nearest(name, TASKS)}")
    loaded = load(
        folder,
        TASKS[name].head,
        precision=precision,
        evaluation=evaluation,
        max_length=evaluation.max_length if max_length is None else max_length,
        device=device,
    )
    return Predictor(TASKS[name], loaded)


def batches(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Group rows into batches of at most `most_tokens`, and return the positions of each batch's rows.

    Each row is padded to the longest of its batch. The longest rows come first, so that none runs alone at the end.
    """
    result: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if result and (len(result[-1]) + 1) * lengths[result[-1][0]] <= most_tokens:
            result[-1].append(position)
        else:
            result.append([position])
    return result


def evaluation_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Group rows as an evaluation does, and return the positions of each batch's rows.

    Rows are sorted by length, and equally long ones stay in order: see `Settings.evaluated` of the job. The longest
    batches come first, so that a long one does not run alone at the end.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)][::-1]
