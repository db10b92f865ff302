"""The rows of a file as inputs of a model, each with where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.batch.unfinished import as_line
from training.contract.errors import InputError, nearest
from training.staging.rows.examples import shown, text_of
from training.staging.rows.questions import COLUMNS as SQUAD
from training.staging.rows.squad_json import squad_rows
from training.staging.sources.readers import Row, read_rows, reader_name, unit_of

ROLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("text",), ("text_pair",)),
    "question-answering": (("question", "context"), ()),
    "causal-lm": (("text",), ()),
}
"""Task to the texts that an input must have, and those that it may have."""
NAME = "id"
"""Column that is told with each answer, where one is named."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row."""

    number: int
    """Its line, from 1, the header included; of Parquet its row, of SQuAD's JSON its question."""
    place: str
    """How messages call it."""
    name: Any
    """What the column `id` holds, where one is named."""
    inputs: Any
    """What the model is asked."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file that can be read any number of times."""

    path: Path
    task: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """What a column holds (text, text_pair, question, context, id) to its name in the file."""

    def check(self) -> None:
        """Raise `InputError` for columns that the task does not have, and for an unknown suffix."""
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
        """Whether the file is in SQuAD's own JSON."""
        return self.task == "question-answering" and reader_name(self.path) == ".json"

    def rows(self) -> Iterator[InputRow]:
        """Yield the rows in order. Raises `InputError` with file and line where one is broken."""
        if self.is_squad:
            at = {name: SQUAD.index(name) for name in ("id", "question", "context")}
            return self._made(squad_rows(self.path), at, "question")
        needed, optional = ROLES[self.task]
        wanted = {role: self.columns.get(role, role) for role in needed}
        wanted |= {role: self.columns[role] for role in (*optional, NAME) if role in self.columns}
        at = {role: place for place, role in enumerate(wanted)}
        return self._made(read_rows(self.path, list(wanted.values())), at, unit_of(self.path))

    def _made(self, rows: Iterator[Row], at: Mapping[str, int], unit: str) -> Iterator[InputRow]:
        is_plain = reader_name(self.path) == ".txt"
        for number, values in rows:
            place = f"{self.path} {unit} {number}"
            texts = {
                role: text_of(place, self.columns.get(role, role), values[column], may_be_blank=True)
                for role, column in at.items()
                if role != NAME
            }
            if is_plain:  # its reader keeps the end of the line
                texts = {role: text.rstrip("\n") for role, text in texts.items()}
            inputs = texts["text"] if list(texts) == ["text"] else texts
            name = _name(place, self.columns.get(NAME, NAME), values[at[NAME]]) if NAME in at else None
            yield InputRow(number, place, name, inputs)


def _name(place: str, column: str, value: Any) -> Any:
    """Return what the column `id` holds, which must be something that a line of the output can tell."""
    try:
        as_line({NAME: value}).encode()
    except UnicodeEncodeError:
        raise InputError(f"{place}: column {column!r} holds half a surrogate pair, which is no text") from None
    except (ValueError, RecursionError):
        raise InputError(f"{place}: column {column!r} is {shown(value)}: an id is text or a finite number") from None
    return value
