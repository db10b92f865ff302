"""The channels of a job: plain Parquet rows and the facts beside them."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reporting.errors import BadData

DATA = "data.parquet"
FACTS = "channel.json"

REPEAT = "is_repeat"
"""Key of a row that only makes up a process's batch."""

Row = Dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What holds for all rows of a channel."""

    task: str
    """Task that the rows were made for."""
    label_names: Tuple[str, ...]
    """Name of each class, by number; empty where the task has no classes."""
    max_length: int
    """Tokens; no row is longer."""
    rows: int
    """Rows that the data file must hold."""
    pad_token_id: int
    """Token that fills up."""
    pad_token_type_id: int
    """Type of the tokens that fill up."""
    padding_side: str
    """left | right."""


class Rows:
    """Tokenised rows as flat arrays: no Python object a token, so that large channels fit and start fast."""

    def __init__(
        self, tokens: np.ndarray, ends: np.ndarray, types: Optional[np.ndarray], columns: Mapping[str, np.ndarray]
    ) -> None:
        self.tokens, self.types = tokens, types
        self.columns = dict(columns)
        """What the task needs beside the tokens: one whole number a row, by column."""
        self._starts, self._ends = np.concatenate([[0], ends[:-1]]).astype(np.int64), ends
        self.lengths: np.ndarray = self._ends - self._starts
        """Tokens of each row."""
        self.numbers: np.ndarray = np.arange(len(ends))
        """Where each row stands in the channel, from 0."""

    def __len__(self) -> int:
        return len(self.lengths)

    def without_types(self) -> "Rows":
        """Return the same rows for a model that tells the texts of a pair apart by their separator alone."""
        view = copy.copy(self)
        view.types = None
        return view

    def by_length(self) -> "Rows":
        """Return the same rows, the shortest first."""
        return self.taken(np.argsort(self.lengths, kind="stable"))

    def sample(self, count: int) -> "Rows":
        """Return at most `count` of the rows, drawn at random and always the same."""
        order = np.random.Generator(np.random.PCG64(0)).permutation(len(self))[:count]
        return self.taken(np.sort(order))

    def taken(self, order: np.ndarray) -> "Rows":
        """Return the rows with these numbers, in this order."""
        view = copy.copy(self)
        view._starts, view._ends = self._starts[order], self._ends[order]
        view.lengths, view.numbers = self.lengths[order], self.numbers[order]
        view.columns = {name: values[order] for name, values in self.columns.items()}
        return view

    def __getitem__(self, at: int) -> Row:
        """Return a row; one that is numbered on from the last is a repeat and says so (see `sampler`)."""
        if at >= len(self):
            return {**self[at - len(self)], REPEAT: True}
        cut = slice(self._starts[at], self._ends[at])
        row: Row = {"input_ids": self.tokens[cut], **{name: values[at] for name, values in self.columns.items()}}
        if self.types is not None:
            row["token_type_ids"] = self.types[cut]
        return row


@dataclass(frozen=True)
class Channel:
    """One channel, read and checked."""

    folder: Path
    """Where it lies; a task may keep further files there."""
    facts: Facts
    """What holds for all rows."""
    rows: Rows
    """The rows."""

    def without_types(self) -> "Channel":
        """Return the same channel without its token types."""
        return Channel(self.folder, self.facts, self.rows.without_types())

    def by_length(self) -> "Channel":
        """Return the same channel, its shortest rows first."""
        return Channel(self.folder, self.facts, self.rows.by_length())

    def sample(self, count: int) -> "Channel":
        """Return a channel of at most `count` of the rows, drawn at random and always the same."""
        return Channel(self.folder, self.facts, self.rows.sample(count))


def read_channel(folder: Path, task: str, columns: Sequence[str]) -> Channel:
    """Return the channel in a folder, with the whole-number columns that the task needs.

    Raises `BadData` with the file and what is wrong with it.
    """
    facts = _read_facts(folder / FACTS)
    if facts.task != task:
        raise BadData(f"{folder} was made for task {facts.task!r}, but the job is to learn {task}")
    file = folder / DATA
    table = read_table(file)
    tokens, ends = lists(table, "input_ids", file)
    types = lists(table, "token_type_ids", file)[0] if "token_type_ids" in table.column_names else None
    rows = Rows(tokens, ends, types, {name: numbers(table, name, file) for name in columns})
    _check(rows, facts, file)
    return Channel(folder, facts, rows)


def check_tokens(rows: Rows, vocabulary_size: int, folder: Path) -> None:
    """Raise `BadData` when a row holds a token that the model does not have."""
    if rows.tokens.max() >= vocabulary_size:
        raise BadData(
            f"{folder / DATA}: input_ids holds token {rows.tokens.max()}, but the model has {vocabulary_size} tokens: "
            "the rows were tokenised for another model"
        )


def _read_facts(file: Path) -> Facts:
    try:
        found = json.loads(file.read_text("utf-8"))
        found["label_names"] = tuple(found["label_names"])
        return Facts(**{name: found[name] for name in Facts.__dataclass_fields__})
    except OSError as error:
        raise BadData(f"{file} cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise BadData(f"{file} has no {error}") from error
    except (ValueError, TypeError) as error:
        raise BadData(f"{file} is damaged: {error}") from error


def read_table(file: Path) -> Any:
    """Return a Parquet file. Raises `BadData` with what is wrong with it."""
    try:
        # Not read_table: it imports pyarrow's data sets, and with them pandas where that is installed.
        return pq.ParquetFile(str(file)).read().combine_chunks()
    except FileNotFoundError:
        raise BadData(f"{file} is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise BadData(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _column(table: Any, name: str, file: Path) -> Any:
    if name not in table.column_names:
        raise BadData(f"{file} has no column {name}: it has {', '.join(table.column_names) or 'none'}")
    if table.num_rows == 0:
        raise BadData(f"{file} has no rows")
    column = table.column(name).chunk(0)
    if column.null_count:
        raise BadData(f"{file}: column {name} has {column.null_count} empty values")
    return column


def lists(table: Any, name: str, file: Path) -> Tuple[np.ndarray, np.ndarray]:
    """Return the values of a column of lists, end to end, and where each list ends."""
    column = _column(table, name, file)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise BadData(f"{file}: column {name} holds {column.type}, not lists of whole numbers")
    values = column.flatten()
    if not pa.types.is_integer(values.type) or values.null_count:
        raise BadData(f"{file}: column {name} holds {column.type}, not lists of whole numbers")
    offsets = column.offsets.to_numpy()
    return values.to_numpy(), (offsets[1:] - offsets[0]).astype(np.int64)


def numbers(table: Any, name: str, file: Path) -> np.ndarray:
    """Return a column of whole numbers; `file` is named where it is none."""
    column = _column(table, name, file)
    if not pa.types.is_integer(column.type):
        raise BadData(f"{file}: column {name} holds {column.type}, not whole numbers")
    return np.asarray(column.to_numpy())


def _check(rows: Rows, facts: Facts, file: Path) -> None:
    if len(rows) != facts.rows:
        raise BadData(f"{file} has {len(rows)} rows, but {FACTS} says {facts.rows}")
    if rows.types is not None and len(rows.types) != len(rows.tokens):
        raise BadData(f"{file}: input_ids and token_type_ids differ in length")
    if rows.lengths.min() < 1 or rows.lengths.max() > facts.max_length:
        at = int(np.flatnonzero((rows.lengths < 1) | (rows.lengths > facts.max_length))[0])
        raise BadData(f"{file}: row {at} has {rows.lengths[at]} tokens; 1 to {facts.max_length} are allowed")
    if rows.tokens.min() < 0:
        raise BadData(f"{file}: input_ids holds {rows.tokens.min()}; tokens are counted from 0")
