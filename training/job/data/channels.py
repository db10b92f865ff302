"""Channels: the rows of a folder in memory, checked, and read from Parquet without a second copy of them."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from training.job.data import TEXT_LENGTHS
from training.job.processes.reporting import BadData

DATA = "data.parquet"
SHARDS = "data-*.parquet"
"""Files of a large channel in place of `data.parquet`, numbered from 0."""
METADATA = "channel.json"

DUPLICATE = "is_duplicate"
"""Key that marks a duplicate: a row that only completes a process's batch (see `padding.py`)."""

Row = dict[str, Any]


@dataclass(frozen=True)
class ChannelMetadata:
    """Properties shared by all rows of a channel."""

    task: str
    """Task that the rows were staged for."""
    label_names: tuple[str, ...]
    """Name of each class, by number; empty if the task has no classes."""
    max_length: int
    """Tokens of the longest permitted row."""
    rows: int
    pad_token_id: int
    pad_token_type_id: int
    padding_side: str
    """left | right."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other fields: the task's `training_options`, or its `scoring_options`."""

    @property
    def is_packed(self) -> bool:
        """True if a row may hold several texts, which must not see each other: see `SEGMENTS`."""
        return bool(self.options.get("packing"))


class Lists:
    """A column with a list of integers a row, stored as one array."""

    def __init__(self, values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self._values, self._starts, self._ends = values, starts, ends

    def __getitem__(self, at: Any) -> Any:
        """Return the list of a row, or the same column with the rows of an array of numbers."""
        if isinstance(at, np.ndarray):
            return Lists(self._values, self._starts[at], self._ends[at])
        return self._values[self._starts[at] : self._ends[at]]

    def joined(self) -> np.ndarray:
        """Return the values of all lists, one list after the other."""
        return np.concatenate([self[at] for at in range(len(self._starts))])

    def largest(self) -> np.ndarray:
        """Return the largest number of each list, none of which is empty."""
        return np.asarray(np.maximum.reduceat(self._values, self._starts)).astype(np.int64)

    def tobytes(self) -> bytes:
        """Return the bytes of all lists and their ends, for a digest."""
        return bytes(self._values.tobytes() + self._ends.tobytes())


class Rows:
    """Tokenised rows, stored as flat arrays so that large channels fit in memory and load fast."""

    def __init__(
        self, tokens: np.ndarray, ends: np.ndarray, types: np.ndarray | None, columns: Mapping[str, Any]
    ) -> None:
        self.tokens, self.types = tokens, types
        self.columns = dict(columns)
        """Other columns that the task needs, by name: one number a row, or a list of integers (`Lists`)."""
        self._starts, self._ends = _starts(ends), ends
        texts = self.columns.get(TEXT_LENGTHS)
        self.lengths: np.ndarray = self._ends - self._starts if texts is None else texts.largest()
        """Tokens of each row, or of its longest text."""
        self.numbers: np.ndarray = np.arange(len(ends))
        """Position of each row in the channel, from 0."""

    def __len__(self) -> int:
        return len(self.lengths)

    def without_token_types(self) -> "Rows":
        """Return the same rows for a model that separates a pair of texts only by a separator token."""
        view = copy.copy(self)
        view.types = None
        return view

    def sorted_by_length(self) -> "Rows":
        return self.select(np.argsort(self.lengths, kind="stable"))

    def sample(self, count: int) -> "Rows":
        """Return at most `count` rows, drawn at random with a fixed seed."""
        order = np.random.Generator(np.random.PCG64(0)).permutation(len(self))[:count]
        return self.select(np.sort(order))

    def select(self, order: np.ndarray) -> "Rows":
        """Return the rows with these numbers, in this order."""
        view = copy.copy(self)
        view._starts, view._ends = self._starts[order], self._ends[order]
        view.lengths, view.numbers = self.lengths[order], self.numbers[order]
        view.columns = {name: values[order] for name, values in self.columns.items()}
        return view

    def __getitem__(self, at: int) -> Row:
        """Return a row. An index past the last row is a duplicate: its row has the key `DUPLICATE`."""
        if at >= len(self):
            return {**self[at - len(self)], DUPLICATE: True}
        cut = slice(self._starts[at], self._ends[at])
        row: Row = {"input_ids": self.tokens[cut], **{name: values[at] for name, values in self.columns.items()}}
        if self.types is not None:
            row["token_type_ids"] = self.types[cut]
        return row


def _starts(ends: np.ndarray) -> np.ndarray:
    """Return the start of each list, given their ends in one array."""
    return np.concatenate([[0], ends[:-1]]).astype(np.int64)


@dataclass(frozen=True)
class Channel:
    """A channel that was read and checked."""

    folder: Path
    """Folder of the channel. A task may keep other files there."""
    metadata: ChannelMetadata
    rows: Rows


def read_channel(
    folder: Path, task: str, columns: Sequence[str], list_columns: Sequence[str] = (), numbers: Sequence[str] = ()
) -> Channel:
    """Return the channel in a folder, with the columns that the task needs: of integers, of lists of integers, and of
    numbers in double precision.

    Raises `BadData` with the file and the reason.
    """
    metadata = _read_metadata(folder / METADATA)
    if metadata.task != task:
        raise BadData(f"{folder} was made for task {metadata.task!r}, but the job's task is {task!r}")
    names = ("input_ids", "token_type_ids", *list_columns)
    files = [folder / DATA] if (folder / DATA).exists() else sorted(folder.glob(SHARDS)) or [folder / DATA]
    lists, integers = read_columns(files, names, columns, optional="token_type_ids", numbers=numbers)
    tokens, ends = lists["input_ids"]
    types = lists["token_type_ids"][0] if "token_type_ids" in lists else None
    own = {name: Lists(values, _starts(ends), ends) for name, (values, ends) in lists.items() if name in list_columns}
    rows = Rows(tokens, ends, types, {**integers, **own})
    if len(rows) != metadata.rows:
        raise BadData(f"{folder / DATA} has {len(rows)} rows, but rows in {METADATA} is {metadata.rows}")
    return Channel(folder, metadata, rows)


def check_tokens(rows: Rows, vocabulary_size: int, folder: Path) -> None:
    """Raise `BadData` when a row contains a token outside the model's vocabulary."""
    if rows.tokens.max() >= vocabulary_size:
        raise BadData(
            f"{folder / DATA}: input_ids contains token {rows.tokens.max()}, but the model has {vocabulary_size} "
            "tokens: the rows were tokenised for a different model"
        )


def _read_metadata(file: Path) -> ChannelMetadata:
    try:
        fields = json.loads(file.read_text("utf-8"))
        fields["label_names"] = tuple(fields["label_names"])
        names = set(ChannelMetadata.__dataclass_fields__) - {"options"}
        options = {name: value for name, value in fields.items() if name not in names}
        return ChannelMetadata(**{name: fields[name] for name in names}, options=options)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise BadData(f"{file} cannot be read: {type(error).__name__}: {error}") from error


IntegerLists = tuple[np.ndarray, np.ndarray]
"""Values of a column of integer lists, concatenated, and the end of each list."""


def read_columns(
    files: Sequence[Path],
    lists: Sequence[str],
    integers: Sequence[str],
    optional: str = "",
    numbers: Sequence[str] = (),
) -> tuple[dict[str, IntegerLists], dict[str, np.ndarray]]:
    """Return the columns of integer lists, and those of integers or numbers, in files that continue each other.

    The column `optional` may be missing. Raises `BadData` with the file and the reason.
    """
    opened = [(file, _open(file)) for file in files]
    names = opened[0][1].schema_arrow.names
    lists = [name for name in lists if name != optional or name in names]
    # Each row group is copied to its place in arrays that are as large as all of them.
    rows = sum(parquet.metadata.num_rows for _, parquet in opened)
    values = {name: _Growing(sum(_values(parquet, name) for _, parquet in opened)) for name in lists}
    ends = {name: _Growing(rows) for name in lists}
    columns = {name: _Growing(rows) for name in (*integers, *numbers)}
    for file, parquet in opened:
        for table in _row_groups(file, parquet):
            for name in lists:
                part, part_ends = _integer_lists(table, name, file)
                ends[name].append(part_ends + values[name].size)
                values[name].append(part)
            for name, column in columns.items():
                column.append(_as_numpy(_column(table, name, file), name, file, is_number=name in numbers))
    joined = {name: (values[name].array, ends[name].array) for name in lists}
    return joined, {name: column.array for name, column in columns.items()}


class _Growing:
    """An array that is filled from its start. Memory that is not filled is not used."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self.size = capacity, 0
        self._array: np.ndarray | None = None

    @property
    def array(self) -> np.ndarray:
        return np.zeros(0, np.int64) if self._array is None else self._array[: self.size]

    def append(self, part: np.ndarray) -> None:
        if self._array is None:
            self._array = np.empty(self._capacity, part.dtype)
        self._array[self.size : self.size + len(part)] = part
        self.size += len(part)


def _values(parquet: pq.ParquetFile, name: str) -> int:
    """Return at least the number of values in a column of lists: an empty list counts as one."""
    groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(group.num_columns))
    return sum(column.num_values for column in columns if column.path_in_schema.split(".")[0] == name)


def read_texts(file: Path, names: Sequence[str]) -> list[list[Any]]:
    """Return columns of texts, or of lists of texts, as Python lists. Raises `BadData`, or KeyError for a column."""
    parquet = _open(file)
    columns: list[list[Any]] = [[] for _ in names]
    for table in _row_groups(file, parquet):
        for column, name in zip(columns, names):
            column.extend(table.column(name).to_pylist())
    return columns


def _row_groups(file: Path, parquet: pq.ParquetFile) -> Iterator[pa.Table]:
    for at in range(parquet.metadata.num_row_groups):
        with _errors_of(file):
            # pyarrow's own read_table also imports its data set module, and pandas if it is installed.
            table = parquet.read_row_group(at).combine_chunks()
        yield table


def _open(file: Path) -> pq.ParquetFile:
    with _errors_of(file):
        return pq.ParquetFile(str(file))


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Turn pyarrow's errors into `BadData` with the reason."""
    try:
        yield
    except FileNotFoundError:
        raise BadData(f"{file} is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise BadData(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _column(table: pa.Table, name: str, file: Path) -> pa.Array:
    if name not in table.column_names:
        raise BadData(f"{file} has no column {name!r}; it has {', '.join(map(repr, table.column_names)) or 'none'}")
    return table.column(name).chunk(0)


def _integer_lists(table: pa.Table, name: str, file: Path) -> IntegerLists:
    """Return the values of a column of integer lists, concatenated, and the end of each list."""
    column = _column(table, name, file)
    offsets = _as_numpy(column.offsets, name, file)
    # `flatten` would return the same values, but imports pyarrow's compute functions.
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    return _as_numpy(values, name, file), (offsets[1:] - offsets[0]).astype(np.int64)


def _as_numpy(values: pa.Array, name: str, file: Path, is_number: bool = False) -> np.ndarray:
    """Return a view of an Arrow array of integers, or of doubles. Arrow's own `to_numpy` would import pandas."""
    fits = values.type == pa.float64() if is_number else pa.types.is_integer(values.type)
    if not fits or values.null_count:
        needed = "numbers in double precision" if is_number else "whole numbers"
        raise BadData(f"{file}: column {name!r} has type {values.type}; it must contain {needed}")
    kind = np.dtype(float if is_number else str(values.type))
    if len(values) == 0:
        return np.zeros(0, kind)
    return np.frombuffer(values.buffers()[1], kind, len(values), values.offset * kind.itemsize)
