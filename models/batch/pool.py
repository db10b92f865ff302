"""Run the batches of a window of rows in threads.

By default, the batches are those of the model's evaluation. In 16 bits, an answer depends a little on the padding and
the number of rows in its batch, so other batches could give other answers.

On a CPU, each core runs batches of its own in a single thread. If cores shared the small matrix products of one batch,
they would wait for each other after every product.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import torch

from models.batch.batches import CPU_TOKENS, CUDA_TOKENS, batches, evaluation_batches
from models.inference.predictor import Predictor
from models.loading.encoding import Encoded


class Pool:
    """Threads that run batches: one thread per CPU core, or one thread for a GPU."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        is_cpu = predictor.loaded.device == "cpu"
        self._most_tokens = CPU_TOKENS if is_cpu else CUDA_TOKENS
        self._threads_before = torch.get_num_threads()
        workers = len(os.sched_getaffinity(0)) if is_cpu else 1
        # torch keeps the number of threads for matrix products separately for each calling thread.
        self._executor = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)
        torch.set_num_threads(self._threads_before)

    def run(self, encoded: Sequence[Encoded], missing: Sequence[int]) -> Iterator[list[tuple[int, Any]]]:
        """Yield answers with their positions in `encoded`, in order of completion. Only `missing` ones are computed."""
        batch_size = self._predictor.loaded.batch_size
        if batch_size is not None and self._predictor.answers_by_row:
            yield from self._run_evaluation_batches(encoded, missing, batch_size)
            return
        lengths, rows = [encoded[at].length for at in missing], [len(encoded[at].rows) for at in missing]
        planned = [[missing[position] for position in batch] for batch in batches(lengths, rows, self._most_tokens)]
        for batch, answers in self._run_each(self._predictor.run, [[encoded[at] for at in batch] for batch in planned]):
            yield list(zip(planned[batch], answers, strict=True))

    def _run_evaluation_batches(
        self, encoded: Sequence[Encoded], missing: Sequence[int], batch_size: int
    ) -> Iterator[list[tuple[int, Any]]]:
        """Run the rows of all examples in the evaluation's batches. An example is answered once all its rows have run.

        Batches without a row of a missing example are left out.
        """
        rows = [(at, part) for at, each in enumerate(encoded) for part in range(len(each.rows))]
        lengths = [len(encoded[at].rows[part].ids) for at, part in rows]
        planned = [[rows[position] for position in batch] for batch in evaluation_batches(lengths, batch_size)]
        outputs: dict[int, dict[int, Any]] = {at: {} for at in missing}
        planned = [batch for batch in planned if any(at in outputs for at, _ in batch)]
        inputs = [[encoded[at].rows[part] for at, part in batch] for batch in planned]
        for batch, batch_outputs in self._run_each(self._predictor.outputs, inputs):
            own = [each for each in zip(planned[batch], batch_outputs, strict=True) if each[0][0] in outputs]
            for (at, part), output in own:
                outputs[at][part] = output
            done = [at for at in dict.fromkeys(at for (at, _), _ in own) if len(outputs[at]) == len(encoded[at].rows)]
            ordered = [output for at in done for _, output in sorted(outputs.pop(at).items())]
            if done:
                yield list(zip(done, self._predictor.answers([encoded[at] for at in done], ordered), strict=True))

    def _run_each(
        self, step: Callable[[list[Any]], list[Any]], inputs: Sequence[list[Any]]
    ) -> Iterator[tuple[int, list[Any]]]:
        """Run a step on each batch. Yield the batch's position with its result, in order of completion."""
        running = {self._executor.submit(step, batch): at for at, batch in enumerate(inputs)}
        for done in as_completed(running):
            yield running.pop(done), done.result()
