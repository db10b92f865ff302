"""Read columns of Parquet files as flat arrays, without a second copy of them in memory."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reporting.errors import BadData

IntegerLists = Tuple[np.ndarray, np.ndarray]
"""Values of a column of integer lists, concatenated, and the end of each list."""


def read_columns(
    files: Sequence[Path], lists: Sequence[str], integers: Sequence[str], optional: str = ""
) -> Tuple[Dict[str, IntegerLists], Dict[str, np.ndarray]]:
    """Return the columns of integer lists and of integers in files that continue each other.

    The column `optional` may be missing. Raises `BadData` with the file and the reason.
    """
    opened = [(file, _open(file)) for file in files]
    names = opened[0][1].schema_arrow.names
    lists = [name for name in lists if name != optional or name in names]
    if sum(parquet.metadata.num_row_groups for _, parquet in opened) <= 1:
        [(file, parquet)] = opened[:1]
        return _columns_of(_read_whole(file, parquet), lists, integers, file)
    return _joined(opened, lists, integers)


def _joined(
    opened: Sequence[Tuple[Path, Any]], lists: Sequence[str], integers: Sequence[str]
) -> Tuple[Dict[str, IntegerLists], Dict[str, np.ndarray]]:
    """Copy each row group to its place in arrays that are as large as all of them."""
    rows = sum(parquet.metadata.num_rows for _, parquet in opened)
    values = {name: _Growing(sum(_values(parquet, name) for _, parquet in opened)) for name in lists}
    ends = {name: _Growing(rows) for name in lists}
    columns = {name: _Growing(rows) for name in integers}
    for file, parquet in opened:
        for table in _row_groups(file, parquet):
            parts, numbers = _columns_of(table, lists, integers, file)
            for name, (part, part_ends) in parts.items():
                ends[name].append(part_ends + values[name].size)
                values[name].append(part)
            for name, part in numbers.items():
                columns[name].append(part)
    joined = {name: (values[name].array, ends[name].array) for name in lists}
    return joined, {name: column.array for name, column in columns.items()}


class _Growing:
    """An array that is filled from its start. Memory that is not filled is not used."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self.size = capacity, 0
        self._array: Optional[np.ndarray] = None

    @property
    def array(self) -> np.ndarray:
        """The values up to now."""
        return np.zeros(0, np.int64) if self._array is None else self._array[: self.size]

    def append(self, part: np.ndarray) -> None:
        """Append values."""
        if self._array is None:
            self._array = np.empty(self._capacity, part.dtype)
        self._array[self.size : self.size + len(part)] = part
        self.size += len(part)


def _values(parquet: Any, name: str) -> int:
    """Return at least the number of values in a column of lists: an empty list counts as one."""
    groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(group.num_columns))
    return sum(column.num_values for column in columns if column.path_in_schema.split(".")[0] == name)


def read_texts(file: Path, names: Sequence[str]) -> List[List[Any]]:
    """Return columns of texts, or of lists of texts, as Python lists. Raises `BadData`, or KeyError for a column."""
    parquet = _open(file)
    columns: List[List[Any]] = [[] for _ in names]
    for table in _row_groups(file, parquet):
        for column, name in zip(columns, names):
            column.extend(table.column(name).to_pylist())
    return columns


def _row_groups(file: Path, parquet: Any) -> Iterator[Any]:
    for at in range(parquet.metadata.num_row_groups):
        with _errors_of(file):
            table = parquet.read_row_group(at).combine_chunks()
        yield table


def _open(file: Path) -> Any:
    with _errors_of(file):
        return pq.ParquetFile(str(file))


def _read_whole(file: Path, parquet: Any) -> Any:
    with _errors_of(file):
        # pyarrow's own read_table also imports its data set module, and pandas if it is installed.
        return parquet.read().combine_chunks()


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Turn pyarrow's errors into `BadData` with the reason."""
    try:
        yield
    except FileNotFoundError:
        raise BadData(f"{file} is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise BadData(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _columns_of(
    table: Any, lists: Sequence[str], integers: Sequence[str], file: Path
) -> Tuple[Dict[str, IntegerLists], Dict[str, np.ndarray]]:
    """Return the columns as views of Arrow's memory."""
    values = {name: _integer_lists(table, name, file) for name in lists}
    return values, {name: _integer_column(table, name, file) for name in integers}


def _column(table: Any, name: str, file: Path) -> Any:
    if name not in table.column_names:
        raise BadData(f"{file} has no column {name!r}; it has {', '.join(map(repr, table.column_names)) or 'none'}")
    if table.num_rows == 0:
        raise BadData(f"{file} has no rows")
    column = table.column(name).chunk(0)
    if column.null_count:
        raise BadData(f"{file}: column {name!r} has {column.null_count} empty values")
    return column


def _integer_lists(table: Any, name: str, file: Path) -> Tuple[np.ndarray, np.ndarray]:
    """Return the values of a column of integer lists, concatenated, and the end of each list."""
    column = _column(table, name, file)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise BadData(f"{file}: column {name!r} has type {column.type}; it must contain lists of whole numbers")
    offsets = _as_numpy(column.offsets)
    # `flatten` would return the same values, but imports pyarrow's compute functions.
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    if not pa.types.is_integer(values.type) or values.null_count:
        raise BadData(f"{file}: column {name!r} has type {column.type}; it must contain lists of whole numbers")
    return _as_numpy(values), (offsets[1:] - offsets[0]).astype(np.int64)


def _integer_column(table: Any, name: str, file: Path) -> np.ndarray:
    """Return a column of integers. Raises `BadData` with the name of `file` if it has any other type."""
    column = _column(table, name, file)
    if not pa.types.is_integer(column.type):
        raise BadData(f"{file}: column {name!r} has type {column.type}; it must contain whole numbers")
    return _as_numpy(column)


def _as_numpy(integers: Any) -> np.ndarray:
    """Return a view of an Arrow array of integers without nulls. Arrow's own `to_numpy` would import pandas."""
    kind = np.dtype(str(integers.type))
    if len(integers) == 0:
        return np.zeros(0, kind)
    return np.frombuffer(integers.buffers()[1], kind, len(integers), integers.offset * kind.itemsize)
