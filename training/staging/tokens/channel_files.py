"""Write the files of a channel folder while its rows are tokenised."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.staging.tokens.staged import DATA, METADATA, shard_name

if TYPE_CHECKING:
    import numpy as np

GROUP_VALUES = 2_000_000
"""Tokens of a row group: 8 MB. Reader and writer keep one row group in memory."""
SHARD_VALUES = 100_000_000
"""Tokens of a shard: at most 400 MB."""


class RowGroupFile:
    """A Parquet file that is written one row group at a time.

    It has no library metadata, because the old library in a container cannot read that of a new one.
    """

    def __init__(self, path: Path, group_values: int = GROUP_VALUES) -> None:
        self._path, self._group_values = path, group_values
        self._writer: Any = None
        self._parts: list[Any] = []
        self._waiting = 0
        self.values = 0
        """Values that were appended to the columns, those in lists counted one by one."""

    def append(self, columns: Mapping[str, Any]) -> None:
        """Append rows. `columns` maps names to pyarrow arrays of equal length."""
        import pyarrow as pa

        table = pa.table(dict(columns))
        size = sum(_values(column) for column in columns.values())
        self._parts.append(table)
        self._waiting += size
        self.values += size
        if self._waiting >= self._group_values:
            self._write_group()

    def close(self) -> None:
        """Write the last rows, and end the file."""
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


def _values(column: Any) -> int:
    return len(column.values) if hasattr(column, "values") else len(column)


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


def token_columns(input_ids: Sequence[Sequence[int]], token_type_ids: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    """Return the columns with token ids and, if the model uses them, token types."""
    import pyarrow as pa

    columns = {"input_ids": pa.array(input_ids, pa.list_(pa.int32()))}
    if token_type_ids is not None:
        columns["token_type_ids"] = pa.array(token_type_ids, pa.list_(pa.int8()))
    return columns


def row_lengths(columns: Mapping[str, Any]) -> np.ndarray:
    """Return the length in tokens of each row."""
    import numpy as np

    return np.diff(columns["input_ids"].offsets.to_numpy())
