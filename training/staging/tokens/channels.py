"""Write the files of a channel while its rows are tokenised, and collect its description."""

from __future__ import annotations

import heapq
import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.staging.rows.selection import hash_of
from training.staging.tokens.staged import (
    DATA,
    METADATA,
    SAMPLES,
    ChannelDescription,
    Sample,
    length_statistics,
    preview,
    shard_name,
)

if TYPE_CHECKING:
    import numpy as np

GROUP_VALUES = 2_000_000
"""Tokens of a row group: 8 MB. Reader and writer keep one row group in memory."""
SHARD_VALUES = 100_000_000
"""Tokens of a shard: at most 400 MB."""


class ChannelWriter:
    """Writes the rows of a channel to `data.parquet`, or to several shards if it is large."""

    def __init__(self, folder: Path, *, group_values: int = GROUP_VALUES, shard_values: int = SHARD_VALUES) -> None:
        folder.mkdir(parents=True)
        self.folder, self.rows = folder, 0
        self._group_values, self._shard_values = group_values, shard_values
        self._shards = 0
        self._file = self._next_file()

    def append(self, columns: Mapping[str, Any]) -> None:
        """Append rows: input_ids, token_type_ids if any, and the task's columns."""
        if self._file.values >= self._shard_values:
            self._file.close()
            self._file = self._next_file()
        self._file.append(columns)
        self.rows += len(columns["input_ids"])

    def close(self, metadata: Mapping[str, Any]) -> None:
        """Write the last rows and `channel.json` with the metadata for the job."""
        self._file.close()
        text = json.dumps({**metadata, "rows": self.rows}, indent=1, ensure_ascii=False)
        (self.folder / METADATA).write_text(text, "utf-8")

    def _next_file(self) -> RowGroupFile:
        if self._shards == 1:
            (self.folder / DATA).rename(self.folder / shard_name(0))
        name = shard_name(self._shards) if self._shards else DATA
        self._shards += 1
        return RowGroupFile(self.folder / name, self._group_values)


class RowGroupFile:
    """A Parquet file that is written one row group at a time.

    It has no library metadata, because the old library in a container cannot read the metadata of a new one.
    """

    def __init__(self, path: Path, group_values: int = GROUP_VALUES) -> None:
        self._path, self._group_values = path, group_values
        self._writer: Any = None
        self._parts: list[Any] = []
        self._waiting = 0
        self.values = 0
        """Values that were appended to the columns. Values in lists are counted one by one."""

    def append(self, columns: Mapping[str, Any]) -> None:
        """Append rows. `columns` maps names to pyarrow arrays of equal length."""
        import pyarrow as pa

        size = sum(len(getattr(column, "values", column)) for column in columns.values())
        self._parts.append(pa.table(dict(columns)))
        self._waiting += size
        self.values += size
        if self._waiting >= self._group_values:
            self._write_group()

    def close(self) -> None:
        if self._parts:
            self._write_group()
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._parts)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, store_schema=False)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._parts, self._waiting = [], 0


def token_counts(columns: Mapping[str, Any]) -> np.ndarray:
    """Return the length in tokens of each row."""
    import numpy as np

    return np.diff(columns["input_ids"].offsets.to_numpy())


class ChannelSummary:
    """Counts of one channel. It keeps eight bytes of each row."""

    def __init__(self, *, max_length: int, classes: int = 0) -> None:
        import numpy as np

        self.max_length = max_length
        self._lengths = np.zeros(max_length + 1, np.int64)
        self._classes = np.zeros(classes, np.int64)
        self.cut_rows = 0
        """Rows of the data that `max_length` cut."""
        self._hashes = array("Q")
        self._samples: list[tuple[int, Sample]] = []

    def add_source_row(self, texts: Sequence[str], *, number: int = 0, label: str | None = None) -> None:
        """Count a row of the data, with its one or two texts."""
        value = hash_of(*texts)
        self._hashes.append(value)
        # The rows with the smallest hashes are a random sample, the same one for the same data. The heap holds negative
        # hashes, so that its first entry is the largest hash.
        if len(self._samples) == SAMPLES and -value <= self._samples[0][0]:
            return
        if any(-value == each for each, _ in self._samples):
            return
        push = heapq.heappushpop if len(self._samples) == SAMPLES else heapq.heappush
        push(self._samples, (-value, Sample(number=number, text=preview(*texts), label=label)))

    def add_rows(self, lengths: np.ndarray, classes: np.ndarray | None = None) -> None:
        """Count rows of the channel, with their lengths in tokens and their class numbers."""
        import numpy as np

        self._lengths += np.bincount(lengths, minlength=len(self._lengths))
        if classes is not None:
            self._classes += np.bincount(classes, minlength=len(self._classes))

    @property
    def rows(self) -> int:
        return int(self._lengths.sum())

    @property
    def class_counts(self) -> tuple[int, ...]:
        return tuple(self._classes.tolist())

    @property
    def length_counts(self) -> dict[int, int]:
        """Number of rows by length in tokens, ascending."""
        return {length: count for length, count in enumerate(self._lengths.tolist()) if count}

    def rows_in(self, other: ChannelSummary) -> int:
        """Return the number of rows of the data whose texts are also a row of the other channel."""
        import numpy as np

        ours, theirs = (np.frombuffer(each._hashes, np.uint64) for each in (self, other))
        return int(np.isin(ours, theirs).sum())

    def samples(self) -> tuple[Sample, ...]:
        """Return the sample rows in the order of the data."""
        return tuple(sample for _, sample in sorted(self._samples, key=lambda each: (each[1].number, -each[0])))

    def description(self) -> ChannelDescription:
        counts = self.length_counts
        return ChannelDescription(
            rows=self.rows,
            source_rows=len(self._hashes),
            lengths=length_statistics(counts, self.max_length),
            tokens=sum(length * count for length, count in counts.items()),
            cut_rows=self.cut_rows,
            class_counts=self.class_counts,
        )
