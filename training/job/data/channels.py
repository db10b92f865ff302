"""Read the channels of a job: plain Parquet rows and their metadata."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from data.columns import read_columns
from reporting.errors import BadData

DATA = "data.parquet"
SHARDS = "data-*.parquet"
"""Files of a large channel in place of `data.parquet`, numbered from 0."""
METADATA = "channel.json"

DUPLICATE = "is_duplicate"
"""Key that marks a duplicate: a row that only completes a process's batch (see `sampler`)."""

Row = Dict[str, Any]


@dataclass(frozen=True)
class ChannelMetadata:
    """Properties shared by all rows of a channel."""

    task: str
    """Task that the rows were staged for."""
    label_names: Tuple[str, ...]
    """Name of each class, by number; empty if the task has no classes."""
    max_length: int
    """Tokens of the longest permitted row."""
    rows: int
    """Number of rows in the data file."""
    pad_token_id: int
    """Token used as padding."""
    pad_token_type_id: int
    """Token type used as padding."""
    padding_side: str
    """left | right."""


class Rows:
    """Tokenised rows, stored as flat arrays so that large channels fit in memory and load fast."""

    def __init__(
        self, tokens: np.ndarray, ends: np.ndarray, types: Optional[np.ndarray], columns: Mapping[str, np.ndarray]
    ) -> None:
        self.tokens, self.types = tokens, types
        self.columns = dict(columns)
        """Other columns that the task needs: one integer a row, by column name."""
        self._starts, self._ends = np.concatenate([[0], ends[:-1]]).astype(np.int64), ends
        self.lengths: np.ndarray = self._ends - self._starts
        """Tokens of each row."""
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
        """Return the same rows, shortest first."""
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
        """Return a row. An index past the last row is a duplicate: its row has the key `DUPLICATE` (see `sampler`)."""
        if at >= len(self):
            return {**self[at - len(self)], DUPLICATE: True}
        cut = slice(self._starts[at], self._ends[at])
        row: Row = {"input_ids": self.tokens[cut], **{name: values[at] for name, values in self.columns.items()}}
        if self.types is not None:
            row["token_type_ids"] = self.types[cut]
        return row


@dataclass(frozen=True)
class Channel:
    """A channel that was read and checked."""

    folder: Path
    """Folder of the channel. A task may keep other files there."""
    metadata: ChannelMetadata
    """Properties shared by all rows."""
    rows: Rows
    """The rows."""

    def without_token_types(self) -> "Channel":
        """Return the same channel without its token types."""
        return Channel(self.folder, self.metadata, self.rows.without_token_types())

    def sorted_by_length(self) -> "Channel":
        """Return the same channel, shortest rows first."""
        return Channel(self.folder, self.metadata, self.rows.sorted_by_length())

    def sample(self, count: int) -> "Channel":
        """Return the channel with at most `count` rows, drawn at random with a fixed seed."""
        return Channel(self.folder, self.metadata, self.rows.sample(count))


def read_channel(folder: Path, task: str, columns: Sequence[str]) -> Channel:
    """Return the channel in a folder, with the integer columns that the task needs.

    Raises `BadData` with the file and the reason.
    """
    metadata = _read_metadata(folder / METADATA)
    if metadata.task != task:
        raise BadData(f"{folder} was made for task {metadata.task!r}, but the job's task is {task!r}")
    lists, integers = read_columns(_files(folder), ("input_ids", "token_type_ids"), columns, optional="token_type_ids")
    tokens, ends = lists["input_ids"]
    types = lists["token_type_ids"][0] if "token_type_ids" in lists else None
    rows = Rows(tokens, ends, types, integers)
    _check(rows, metadata, folder / DATA)
    return Channel(folder, metadata, rows)


def _files(folder: Path) -> List[Path]:
    """Return the files with the channel's rows, in order."""
    shards = [] if (folder / DATA).exists() else sorted(folder.glob(SHARDS))
    for number, shard in enumerate(shards):
        if shard.name != f"data-{number:05d}.parquet":
            raise BadData(f"{shard}: the shard before it is missing")
    return shards or [folder / DATA]


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
        return ChannelMetadata(**{name: fields[name] for name in ChannelMetadata.__dataclass_fields__})
    except OSError as error:
        raise BadData(f"{file} cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise BadData(f"{file} has no field {error}") from error
    except (ValueError, TypeError) as error:
        raise BadData(f"{file} is damaged: {error}") from error


def _check(rows: Rows, metadata: ChannelMetadata, file: Path) -> None:
    if len(rows) != metadata.rows:
        raise BadData(f"{file} has {len(rows)} rows, but rows in {METADATA} is {metadata.rows}")
    if rows.types is not None and len(rows.types) != len(rows.tokens):
        raise BadData(f"{file}: input_ids and token_type_ids differ in length")
    if rows.lengths.min() < 1 or rows.lengths.max() > metadata.max_length:
        at = int(np.flatnonzero((rows.lengths < 1) | (rows.lengths > metadata.max_length))[0])
        raise BadData(f"{file}: row {at} has {rows.lengths[at]} tokens; 1 to {metadata.max_length} are allowed")
    if rows.tokens.min() < 0:
        raise BadData(f"{file}: input_ids contains {rows.tokens.min()}; token ids start at 0")
