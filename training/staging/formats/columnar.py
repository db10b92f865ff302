"""Read Parquet and Arrow files with pyarrow, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, first_line
from training.staging.formats.files import Row, TextFormat, missing_column, plain_suffix, unpacked_file

BATCH_ROWS = 100
ARROW_FILE, OLD_FEATHER = b"ARROW1\0\0", b"FEA1"


def columnar_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row of a Parquet file, or an Arrow file or stream, in order.

    Raises InputError for a damaged file.
    """
    read, kind = (_parquet, "Parquet") if plain_suffix(path) == ".parquet" else (_arrow, "Arrow")
    with unpacked_file(path, text.max_expansion) as plain:
        try:
            yield from enumerate(read(plain, path, columns), start=1)
        except InputError:
            raise
        except Exception as error:  # A damaged file raises about ten classes, from its schema or amid a batch.
            raise InputError(f"{path} is not a valid {kind} file: {first_line(error, 200)}") from error


def _parquet(plain: Path, path: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(plain, memory_map=True, page_checksum_verification=True) as file:
        _check_columns(path, columns, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns), use_threads=False):
            yield from _rows(batch, columns)


def _arrow(plain: Path, path: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    import pyarrow as pa

    source = pa.memory_map(str(plain)).read_buffer()
    start = source[: len(ARROW_FILE)].to_pybytes()
    if start.startswith(OLD_FEATHER):
        raise InputError(f"{path} is Feather of version 1; write it again with pandas' to_feather")
    content = source[len(ARROW_FILE) :] if start == ARROW_FILE else source  # A file has a stream within it.
    names = pa.ipc.open_stream(content).schema.names
    _check_columns(path, columns, names)
    fields = sorted({*map(names.index, columns)})
    for batch in pa.ipc.open_stream(content, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)):
        batch.validate(full=True)  # Offsets that point outside the file would give the content of other memory.
        for at in range(0, batch.num_rows, BATCH_ROWS):
            yield from _rows(batch.slice(at, BATCH_ROWS), columns)


def _rows(batch: Any, columns: Sequence[str]) -> Iterator[list[Any]]:
    values = (batch.column(column).to_pylist() for column in columns)
    return map(list, zip(*values, strict=True))


def _check_columns(path: Path, columns: Sequence[str], known: Sequence[str]) -> None:
    for column in columns:
        if known.count(column) != 1:
            raise missing_column(str(path), column, known)
