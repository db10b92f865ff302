"""Predict the rows of a file, one window of rows at a time, and write the answers to a file that appears when whole."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import torch

from models.batch.rows import InputRow
from models.inference.predictor import Predictor
from models.loading.inputs import BadInputs
from training.contract.errors import InputError
from training.state.permissions import file_mode
from training.state.system_errors import system_reason

WINDOW_ROWS = 65_536
"""More than most validation files have: only rows of one window share batches, as in an evaluation."""
WINDOW_CHARACTERS = 2**25
"""Most characters of a window, which is kept in memory."""

OnRow = Callable[[], object]
"""Called once for each row that is done."""


def check(predictor: Predictor, rows: Iterable[InputRow], parameters: Mapping[str, Any] | None, on_row: OnRow) -> int:
    """Check all rows and return their number. Raises `InputError` with file and line for the first invalid row."""
    count = 0
    for row in rows:
        count += 1
        examples = _at(row, partial(predictor.read, row.inputs, parameters))
        if predictor.encode_may_refuse:
            _at(row, partial(predictor.encode, examples))
        on_row()
    return count


def predict(
    predictor: Predictor, rows: Iterable[InputRow], parameters: Mapping[str, Any] | None, on_row: OnRow
) -> Iterator[str]:
    """Yield a line of JSON for each row, in order. Raises `InputError` for a row without a valid answer."""
    is_cpu, threads = predictor.loaded.device == "cpu", torch.get_num_threads()
    workers = len(os.sched_getaffinity(0)) if is_cpu else 1
    # On a CPU, each core runs batches of its own: cores that shared the small matrix products of one batch would wait
    # for each other after every product. torch keeps the number of threads for each calling thread.
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for window in windows(rows):
            inputs = [each for row in window for each in _at(row, partial(predictor.read, row.inputs, parameters))]
            lines: dict[int, str] = {}
            for at, answer in predictor.answer_each(predictor.encode(inputs), pool.map):
                lines[at] = _line(window[at], answer)
                on_row()
            yield from (lines[at] for at in range(len(window)))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def windows(rows: Iterable[InputRow]) -> Iterator[list[InputRow]]:
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


@contextmanager
def private_output(output: Path) -> Iterator[TextIO]:
    """Yield a private file that becomes `output` when the block ends. After an error, it is deleted.

    Raises `InputError` if it cannot be written, or if the output exists by then.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.", suffix=".unfinished", dir=output.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(descriptor)
                os.fchmod(descriptor, file_mode())
            if output.exists():
                raise InputError(f"--output {output} was created meanwhile: choose a different file, or delete it.")
            Path(name).replace(output)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        reason = system_reason(error, variable="--output", place="a file")
        raise InputError(f"--output {output} cannot be written: {reason}") from error


def _line(row: InputRow, answer: Any) -> str:
    named = {} if row.name is None else {"id": row.name}
    fields = {"row": row.number, **named, **(answer if isinstance(answer, dict) else {"answers": answer})}
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    except ValueError as error:
        problem = "the model's answer is not a finite number: check the model's weights, or use precision fp32"
        raise InputError(f"{row.place}: {problem}") from error


def _at(row: InputRow, step: Callable[[], Any]) -> Any:
    """Return the result of a step, or name the row that it refuses."""
    try:
        return step()
    except BadInputs as error:
        raise InputError(f"{row.place}: {error}") from error
