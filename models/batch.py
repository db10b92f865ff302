"""Predict every row of a file in its order: read rows, answer one window at a time, write the answers to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from models.inference.predictor import Predictor
from training.contract.errors import InputError, nearest, short_text
from training.job.processes.reporting import BadData
from training.job.tasks import SQUAD_COLUMNS as SQUAD
from training.job.tasks import TASKS
from training.job.tasks.inputs import BadInputs
from training.staging.formats.files import TextFormat
from training.staging.formats.readers import is_json_array
from training.staging.sources.data_files import DataFiles, FileRows
from training.staging.tokens.tokenizing import batches

WINDOW_ROWS = 65_536
"""More than most validation files have: only rows of one window share batches, as in an evaluation."""
WINDOW_CHARACTERS = 2**25
"""Most characters of a window, which is kept in memory."""

ID = "id"
"""Role of the column that is copied to each answer, if the user names one."""


class InputRow(NamedTuple):
    number: int
    """Line number from 1, counting the header. For Parquet, Arrow and JSON arrays, the row number; for SQuAD's JSON,
    the question's number. The numbers continue from file to file."""
    place: str
    """Location of the row for messages, such as `a.jsonl line 3`."""
    id: Any
    inputs: Any
    """The model's input: a value, such as a text, or values by role."""


def read_rows(files: DataFiles, task: str, columns: Mapping[str, str], text: TextFormat) -> Iterator[InputRow]:
    """Yield the rows of files in order. `columns` are names of columns by role: text, text_pair, question, context, id.

    Raises `InputError` for a column that the task does not have, and with file and line for a broken row.
    """
    required = TASKS[task].inputs
    known = (*required, *TASKS[task].optional_inputs, ID)
    for role in set(columns).difference(known):
        raise InputError(f"columns.{role} is unknown for task {task}: use {', '.join(known)}.{nearest(role, known)}")
    names = {role: columns.get(role, role) for role in known if role in required or role in columns}
    if set(required) <= set(SQUAD) and files.reader_name == ".json" and not is_json_array(files.paths[0], text):
        if columns:
            raise InputError(f"{files.name} is in SQuAD's JSON format, which has fixed names: remove columns.*")
        names = {name: name for name in SQUAD}
    rows = FileRows(files, list(names.values()), text)
    for number, values in rows:
        if isinstance(values, InputError):
            raise values
        place, row = rows.location(number), dict(zip(names, values, strict=True))
        try:
            texts = {
                role: TASKS[task].input_value(place, names[role], row[role])
                for role in known
                if role in names and role != ID
            }
            json.dumps(row.get(ID), ensure_ascii=False, allow_nan=False, default=str).encode()
        except BadData as error:
            raise InputError(str(error)) from error
        except (ValueError, RecursionError):
            problem = f"column {names[ID]!r} is {short_text(row[ID])}: an id must be text or a finite number"
            raise InputError(f"{place}: {problem}") from None
        if files.reader_name == ".txt":  # the reader of plain text keeps line endings
            texts = {role: line.rstrip("\n") for role, line in texts.items()}
        yield InputRow(number, place, row.get(ID), next(iter(texts.values())) if len(texts) == 1 else texts)


def check(predictor: Predictor, rows: Iterable[InputRow], parameters: Mapping[str, Any]) -> int:
    """Check all rows and return their number. Raises `InputError` with file and line for the first invalid row."""
    count = 0
    for row in rows:
        count += 1
        examples = _at(row, partial(predictor.read, row.inputs, parameters))
        if predictor.encode_may_refuse:
            _at(row, partial(predictor.encode, examples))
    return count


def predict(
    predictor: Predictor,
    rows: Iterable[InputRow],
    parameters: Mapping[str, Any],
    on_rows: Callable[[float], object] = lambda _: None,
) -> Iterator[str]:
    """Yield a line of JSON for each row, in order, and call `on_rows` with each number of rows that is done.

    Raises `InputError` for a row without a valid answer.
    """
    is_cpu, threads = predictor.loaded.device == "cpu", torch.get_num_threads()
    workers = len(os.sched_getaffinity(0)) if is_cpu else 1
    # On a CPU, each core runs batches of its own: cores that shared the small matrix products of one batch would wait
    # for each other after every product. torch keeps the number of threads for each calling thread.
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))

    def run_each(share: float, run: Callable[[Any], list[Any]], parts: Iterable[Any]) -> Iterator[list[Any]]:
        for outputs in pool.map(run, parts):
            on_rows(len(outputs) * share)
            yield outputs

    try:
        for window in batches(rows, _characters, WINDOW_ROWS, WINDOW_CHARACTERS):
            inputs = [each for row in window for each in _at(row, partial(predictor.read, row.inputs, parameters))]
            encoded = predictor.encode(inputs)
            share = len(window) / sum(len(each.rows) for each in encoded)  # a long context has several rows
            answers = predictor.answer_encoded(encoded, partial(run_each, share))
            yield from map(_line, window, answers)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _characters(row: InputRow) -> int:
    values = row.inputs.values() if isinstance(row.inputs, dict) else [row.inputs]
    return sum(len(value if isinstance(value, str) else str(value)) for value in values)


@contextmanager
def new_file(output: Path) -> Iterator[TextIO]:
    """Yield a file that becomes `output` when the block ends. After an error, it is deleted.

    Raises `InputError` if the output exists by then, and OSError.
    """
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if output.exists():
            raise InputError(f"--output {output} was created meanwhile: choose a different file, or delete it.")
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


def _line(row: InputRow, answer: Any) -> str:
    named = {} if row.id is None else {ID: row.id}
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
