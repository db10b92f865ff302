"""Rows of a file as inputs of a model, each with its location for messages."""

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
from training.staging.sources.readers import Row, read_rows, reader_name, unit_of

ROLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("text",), ("text_pair",)),
    "question-answering": (("question", "context"), ()),
    "causal-lm": (("text",), ()),
}
"""Texts that an input must have, and those that it may have, by task."""
NAME = "id"
"""Column that is copied to each answer, if it is named."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row."""

    number: int
    """Line, from 1, including the header; in Parquet the row, in SQuAD's JSON the question."""
    place: str
    """Name of the row in messages."""
    name: Any
    """Value of the column `id`, if it is named."""
    inputs: Any
    """Input of the model."""


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
                raise InputError(f"columns.{role} is unknown to {self.task}; known are {listed}.{nearest(role, known)}")
        if self.is_squad and self.columns:
            raise InputError(f"{self.path} is read as SQuAD's JSON, whose names are known: it takes no columns")
        reader_name(self.path)

    @property
    def is_squad(self) -> bool:
        """True if the file is in SQuAD's own JSON."""
        return self.task == "question-answering" and reader_name(self.path) == ".json"

    def rows(self) -> Iterator[InputRow]:
        """Yield the rows in order. Raises `InputError` with file and line for a broken row."""
        if self.is_squad:
            at = {name: SQUAD.index(name) for name in ("id", "question", "context")}
            return self._made(squad_rows(self.path), at, "question")
        needed, optional = ROLES[self.task]
        columns = {role: self.columns.get(role, role) for role in needed}
        columns |= {role: self.columns[role] for role in (*optional, NAME) if role in self.columns}
        at = {role: place for place, role in enumerate(columns)}
        return self._made(read_rows(self.path, list(columns.values())), at, unit_of(self.path))

    def _made(self, rows: Iterator[Row], at: Mapping[str, int], unit: str) -> Iterator[InputRow]:
        is_plain = reader_name(self.path) == ".txt"
        for number, values in rows:
            place = f"{self.path} {unit} {number}"
            texts = {
                role: checked_text(place, self.columns.get(role, role), values[column], may_be_blank=True)
                for role, column in at.items()
                if role != NAME
            }
            if is_plain:  # its reader keeps the end of the line
                texts = {role: text.rstrip("\n") for role, text in texts.items()}
            inputs = texts["text"] if list(texts) == ["text"] else texts
            name = _name(place, self.columns.get(NAME, NAME), values[at[NAME]]) if NAME in at else None
            yield InputRow(number, place, name, inputs)


def _name(place: str, column: str, value: Any) -> Any:
    """Return the value of the column `id`. Raises `InputError` if it cannot be written as JSON."""
    try:
        as_line({NAME: value}).encode()
    except UnicodeEncodeError:
        raise InputError(f"{place}: column {column!r} holds half a surrogate pair, which is no text") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{place}: column {column!r} is {short_text(value)}: an id is text or a finite number"
        ) from None
    return value
