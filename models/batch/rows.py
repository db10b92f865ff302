"""Read the rows of a file as model inputs. Each row has a location for error messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from training.contract.errors import InputError, nearest, short_text
from training.staging.formats.json_rows import SQUAD_COLUMNS as SQUAD
from training.staging.formats.json_rows import is_json_array
from training.staging.formats.text import DEFAULT_FORMAT, TextFormat
from training.staging.rows.texts import checked_text
from training.staging.sources.data_files import DataFiles, FileRows

ROLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("text",), ("text_pair",)),
    "question-answering": (("question", "context"), ()),
    "causal-lm": (("text",), ()),
}
"""Texts of an input by task: those that are required, and those that are optional."""
NAME = "id"
"""Role of the column that is copied to each answer, if the user names one."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the file."""

    number: int
    """Line number from 1, counting the header. For Parquet, Arrow and JSON arrays, the row number; for SQuAD's JSON,
    the question's number. The numbers go on from file to file."""
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
    """Encoding and delimiter of text files."""

    def check(self) -> None:
        """Raise `InputError` for columns that the task does not have, or for an unknown suffix."""
        known = (*ROLES[self.task][0], *ROLES[self.task][1], NAME)
        for role in self.columns:
            if role not in known:
                listed = ", ".join(known)
                raise InputError(f"columns.{role} is unknown for task {self.task}: use {listed}.{nearest(role, known)}")
        if self.is_squad and self.columns:
            raise InputError(f"{self.files.name} is in SQuAD's JSON format, which has fixed names: remove columns.*")

    @property
    def is_squad(self) -> bool:
        """True if the file is in SQuAD's JSON format."""
        is_json = self.task == "question-answering" and self.files.reader_name == ".json"
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
        needed, optional = ROLES[self.task]
        columns = {role: self.columns.get(role, role) for role in needed}
        return columns | {role: self.columns[role] for role in (*optional, NAME) if role in self.columns}

    def _input_rows(self, rows: FileRows, at: Mapping[str, int]) -> Iterator[InputRow]:
        is_plain = self.files.reader_name == ".txt"
        for number, values in rows:
            place = rows.location(number)
            texts = {
                role: checked_text(place, self.columns.get(role, role), values[column], may_be_blank=True)
                for role, column in at.items()
                if role != NAME
            }
            if is_plain:  # the reader of plain text keeps line endings
                texts = {role: text.rstrip("\n") for role, text in texts.items()}
            inputs = texts["text"] if list(texts) == ["text"] else texts
            name = _name(place, self.columns.get(NAME, NAME), values[at[NAME]]) if NAME in at else None
            yield InputRow(number, place, name, inputs)


def _name(place: str, column: str, value: Any) -> Any:
    """Return the value of the id column. Raises `InputError` if it cannot be written as JSON."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError(f"{place}: column {column!r} contains half a surrogate pair, which is not text") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{place}: column {column!r} is {short_text(value)}: an id must be text or a finite number"
        ) from None
    return value
