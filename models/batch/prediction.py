"""Predict the rows of a file, one window of rows at a time. Each window is sorted by length and cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from models.batch.pool import Pool
from models.batch.rows import InputRow
from models.batch.unfinished import Unfinished, as_line
from models.inference.predictor import Predictor
from models.loading.inputs import BadInputs
from training.contract.errors import InputError

WINDOW_ROWS = 65_536
"""More than most validation files have: only rows of one window share batches, as in an evaluation."""
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
    with Pool(predictor) as pool:
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
    pool: Pool,
    on_progress: OnProgress,
) -> None:
    first = unfinished.done
    answers = {at - first: answer for at, answer in unfinished.window_answers.items()}
    missing = [at for at in range(len(window)) if at not in answers]
    # Rows that were answered before still take part in forming the batches.
    encoded = predictor.encode([each for row in window for each in _read(predictor, row, parameters)])
    for made in pool.run(encoded, missing):
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
