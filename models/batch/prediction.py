"""Predict the rows of a file, one window of rows at a time. Each window is sorted by length and cut into batches.

On a CPU, each core runs batches of its own in a single thread. If cores shared the small matrix products of one batch,
they would wait for each other after every product.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

import torch

from models.batch.batches import CPU_TOKENS, CUDA_TOKENS, batches
from models.batch.rows import InputRow
from models.batch.unfinished import Unfinished, as_line
from models.inference.predictor import Predictor
from models.loading.encoding import Encoded
from models.loading.inputs import BadInputs
from training.contract.errors import InputError

WINDOW_ROWS = 8_192
WINDOW_CHARACTERS = 2**25
"""Most characters of a window, which is kept in memory."""

OnProgress = Callable[[int], None]
"""Called with the number of rows that are done."""


def check(
    predictor: Predictor, rows: Iterable[InputRow], parameters: Mapping[str, Any] | None, on_progress: OnProgress
) -> int:
    """Check all rows and return their number. Raises `InputError` with file and line for the first invalid row."""
    count = 0
    for count, row in enumerate(rows, start=1):
        examples = _read(predictor, row, parameters)
        if predictor.encode_may_refuse:
            _run_with_location(row, partial(predictor.encode, examples))
        on_progress(count)
    return count


def run(
    predictor: Predictor,
    rows: Iterable[InputRow],
    parameters: Mapping[str, Any] | None,
    unfinished: Unfinished,
    on_progress: OnProgress,
) -> None:
    """Predict the rows that have no answer yet. If this is interrupted, the answers so far stay on disk."""
    left = iter(rows)
    for _ in range(unfinished.done):
        next(left)
    with _Pool(predictor) as pool:
        for window in windows(left):
            _predict_window(predictor, window, parameters, unfinished, pool, on_progress)


def windows(rows: Iterator[InputRow]) -> Iterator[list[InputRow]]:
    """Yield the rows in windows that fit in memory."""
    window: list[InputRow] = []
    characters = 0
    for row in rows:
        window.append(row)
        characters += len(row.inputs) if isinstance(row.inputs, str) else sum(map(len, row.inputs.values()))
        if len(window) == WINDOW_ROWS or characters >= WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def _predict_window(
    predictor: Predictor,
    window: Sequence[InputRow],
    parameters: Mapping[str, Any] | None,
    unfinished: Unfinished,
    pool: _Pool,
    on_progress: OnProgress,
) -> None:
    first = unfinished.done
    answers = {at - first: answer for at, answer in unfinished.window_answers.items()}
    missing = [at for at in range(len(window)) if at not in answers]
    encoded = predictor.encode([each for at in missing for each in _read(predictor, window[at], parameters)])
    for batch, batch_answers in pool.run(encoded):
        made = [(missing[position], answer) for position, answer in zip(batch, batch_answers, strict=True)]
        try:
            unfinished.keep((first + at, answer) for at, answer in made)
        except ValueError as error:
            place = next(window[at].place for at, answer in made if not _is_finite(answer))
            problem = "the model's answer is not a finite number: check the model's weights, or use precision fp32"
            raise InputError(f"{place}: {problem}") from error
        answers.update(made)
        on_progress(first + len(answers))
    unfinished.append([_line(row, answers[at]) for at, row in enumerate(window)])
    unfinished.window_answers.clear()


def _is_finite(answer: Any) -> bool:
    try:
        as_line({"answer": answer})
    except ValueError:
        return False
    return True


def _line(row: InputRow, answer: Any) -> dict[str, Any]:
    named = {} if row.name is None else {"id": row.name}
    return {"row": row.number, **named, **(answer if isinstance(answer, dict) else {"answers": answer})}


def _read(predictor: Predictor, row: InputRow, parameters: Mapping[str, Any] | None) -> list[Any]:
    return list(_run_with_location(row, partial(predictor.read, row.inputs, parameters)))


def _run_with_location(row: InputRow, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except BadInputs as error:
        raise InputError(f"{row.place}: {error}") from error


class _Pool:
    """Threads that run batches: one thread per CPU core, or one thread for a GPU."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        is_cpu = predictor.loaded.device == "cpu"
        self._most_tokens = CPU_TOKENS if is_cpu else CUDA_TOKENS
        self._threads_before = torch.get_num_threads()
        workers = len(os.sched_getaffinity(0)) if is_cpu else 1
        # torch keeps the number of threads for matrix products separately for each calling thread.
        self._executor = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)
        torch.set_num_threads(self._threads_before)

    def run(self, encoded: Sequence[Encoded]) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield the positions of each batch with their answers, in order of completion."""
        planned = batches([each.length for each in encoded], [len(each.rows) for each in encoded], self._most_tokens)
        running: dict[Future[list[Any]], list[int]] = {
            self._executor.submit(self._predictor.run, [encoded[at] for at in batch]): batch for batch in planned
        }
        for done in as_completed(running):
            yield running[done], done.result()
