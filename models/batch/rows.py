"""Read the rows of a file as model inputs. Each row has a location for error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.batch.unfinished import as_line
from training.contract.errors import InputError, nearest
from training.staging.rows.examples import checked_text, short_text
from training.staging.rows.questions import COLUMNS as SQUAD
from training.staging.rows.squad_json import squad_rows
from training.staging.sources.expansion import Expansion
from training.staging.sources.readers import read_rows, reader_name, unit_of
from training.staging.sources.row import Row

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
    """Line number from 1, counting the header. For Parquet, the row number; for SQuAD's JSON, the question's number."""
    place: str
    """Location of the row for messages, such as `a.jsonl line 3`."""
    name: Any
    """Value of the id column, if the user names one."""
    inputs: Any
    """The model's input: a text, or texts by role."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file that can be read any number of times."""

    path: Path
    task: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of columns in the file, by role: text, text_pair, question, context, id."""

    def check(self) -> None:
        """Raise `InputError` for columns that the task does not have, or for an unknown suffix."""
        known = (*ROLES[self.task][0], *ROLES[self.task][1], NAME)
        for role in self.columns:
            if role not in known:
                listed = ", ".join(known)
                raise InputError(f"columns.{role} is unknown for task {self.task}: use {listed}.{nearest(role, known)}")
        if self.is_squad and self.columns:
            raise InputError(f"{self.path} is in SQuAD's JSON format, which has fixed names: remove columns.*")
        reader_name(self.path)

    @property
    def is_squad(self) -> bool:
        """True if the file is in SQuAD's JSON format."""
        return self.task == "question-answering" and reader_name(self.path) == ".json"

    def rows(self) -> Iterator[InputRow]:
        """Yield the rows in order. Raises `InputError` with file and line for a broken row."""
        expansion = Expansion(self.path, keeps_rows=False)
        if self.is_squad:
            at = {name: SQUAD.index(name) for name in ("id", "question", "context")}
            return self._input_rows(squad_rows(self.path, expansion), at, "question")
        needed, optional = ROLES[self.task]
        columns = {role: self.columns.get(role, role) for role in needed}
        columns |= {role: self.columns[role] for role in (*optional, NAME) if role in self.columns}
        at = {role: place for place, role in enumerate(columns)}
        return self._input_rows(read_rows(self.path, list(columns.values()), expansion), at, unit_of(self.path))

    def _input_rows(self, rows: Iterator[Row], at: Mapping[str, int], unit: str) -> Iterator[InputRow]:
        is_plain = reader_name(self.path) == ".txt"
        for number, values in rows:
            place = f"{self.path} {unit} {number}"
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
        as_line({NAME: value}).encode()
    except UnicodeEncodeError:
        raise InputError(f"{place}: column {column!r} contains half a surrogate pair, which is not text") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{place}: column {column!r} is {short_text(value)}: an id must be text or a finite number"
        ) from None
    return value
