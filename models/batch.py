"""Predict every row of a file, in its order: read rows, answer one window at a time, write a private output file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import torch

from models.inference.predictor import Predictor
from state.errors import system_reason
from state.permissions import file_mode
from training.contract.errors import InputError, nearest, short_text
from training.job.processes.reporting import BadData
from training.job.tasks import SQUAD_COLUMNS as SQUAD
from training.job.tasks import TASKS
from training.job.tasks.checks import checked_text
from training.job.tasks.inputs import BadInputs
from training.staging.formats.files import DEFAULT_FORMAT, TextFormat
from training.staging.formats.readers import is_json_array
from training.staging.sources.data_files import DataFiles, FileRows
from training.staging.tokens.tokenizing import batches

WINDOW_ROWS = 65_536
"""More than most validation files have: only rows of one window share batches, as in an evaluation."""
WINDOW_CHARACTERS = 2**25
"""Most characters of a window, which is kept in memory."""

OnRow = Callable[[], object]
"""Called once for each row that is done."""
NAME = "id"
"""Role of the column that is copied to each answer, if the user names one."""


@dataclass(frozen=True, slots=True)
class InputRow:
    number: int
    """Line number from 1, counting the header. For Parquet, Arrow and JSON arrays, the row number; for SQuAD's JSON,
    the question's number. The numbers continue from file to file."""
    place: str
    """Location of the row for messages, such as `a.jsonl line 3`."""
    name: Any
    """Value of the id column, if the user names one."""
    inputs: Any
    """The model's input: a text, or texts by role."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file, or files that are read one after the other. It can be read any number of times."""

    files: DataFiles
    task: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of columns in the file, by role: text, text_pair, question, context, id."""
    text: TextFormat = DEFAULT_FORMAT

    def check(self) -> None:
        """Raise `InputError` for columns that the task does not have, or for an unknown suffix."""
        task = TASKS[self.task]
        known = (*task.inputs, *task.optional_inputs, NAME)
        for role in self.columns:
            if role not in known:
                listed = ", ".join(known)
                raise InputError(f"columns.{role} is unknown for task {self.task}: use {listed}.{nearest(role, known)}")
        if self.is_squad and self.columns:
            raise InputError(f"{self.files.name} is in SQuAD's JSON format, which has fixed names: remove columns.*")

    @property
    def is_squad(self) -> bool:
        """True if the file is in SQuAD's JSON format, which has all texts of an input."""
        is_json = set(TASKS[self.task].inputs) <= set(SQUAD) and self.files.reader_name == ".json"
        return is_json and not is_json_array(self.files.paths[0], self.text)

    def rows(self) -> Iterator[InputRow]:
        """Yield the rows in order. Raises `InputError` with file and line for a broken row."""
        if self.is_squad:
            at = {name: SQUAD.index(name) for name in ("id", "question", "context")}
            rows = FileRows(self.files, SQUAD, self.text)
            return self._input_rows(rows, at)
        columns = self.columns_by_role
        rows = FileRows(self.files, list(columns.values()), self.text)
        return self._input_rows(rows, {role: place for place, role in enumerate(columns)})

    @property
    def columns_by_role(self) -> dict[str, str]:
        """Columns that are read, by role."""
        task = TASKS[self.task]
        columns = {role: self.columns.get(role, role) for role in task.inputs}
        return columns | {role: self.columns[role] for role in (*task.optional_inputs, NAME) if role in self.columns}

    def _input_rows(self, rows: FileRows, at: Mapping[str, int]) -> Iterator[InputRow]:
        is_plain = self.files.reader_name == ".txt"
        for number, values in rows:
            place = rows.location(number)
            try:
                texts = {
                    role: checked_text(place, self.columns.get(role, role), values[column], may_be_blank=True)
                    for role, column in at.items()
                    if role != NAME
                }
            except BadData as error:
                raise InputError(str(error)) from error
            if is_plain:  # the reader of plain text keeps line endings
                texts = {role: text.rstrip("\n") for role, text in texts.items()}
            inputs = texts["text"] if list(texts) == ["text"] else texts
            name = values[at[NAME]] if NAME in at else None
            try:
                json.dumps(name, ensure_ascii=False, allow_nan=False, default=str).encode()
            except (ValueError, RecursionError):
                column = self.columns.get(NAME, NAME)
                problem = f"column {column!r} is {short_text(name)}: an id must be text or a finite number"
                raise InputError(f"{place}: {problem}") from None
            yield InputRow(number, place, name, inputs)


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
        for window in batches(rows, _characters, WINDOW_ROWS, WINDOW_CHARACTERS):
            inputs = [each for row in window for each in _at(row, partial(predictor.read, row.inputs, parameters))]
            lines: dict[int, str] = {}
            for at, answer in predictor.answer_each(predictor.encode(inputs), pool.map):
                lines[at] = _line(window[at], answer)
                on_row()
            yield from (lines[at] for at in range(len(window)))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _characters(row: InputRow) -> int:
    return len(row.inputs) if isinstance(row.inputs, str) else sum(map(len, row.inputs.values()))


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
