"""Read Parquet files, whose encodings can make gigabytes of text from a file of a few hundred bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.formats.compression import is_packed
from training.staging.formats.expansion import Expansion
from training.staging.formats.files import open_bytes, read_whole
from training.staging.formats.parquet_footer import read_footer_size
from training.staging.formats.record_batches import MAX_BATCH_ROWS, batch_rows, first_line
from training.staging.formats.row import Row, missing_column
from training.staging.formats.text_format import TextFormat


def parquet_rows(path: Path, columns: Sequence[str], expansion: Expansion, _: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order.

    Raises InputError for a damaged file, or one with more rows or text than the limit. Text is read as a dictionary of
    its different values, as it is stored, and its length is computed before it is converted. A page whose header
    understates its size is not recognised.
    """
    import pyarrow as pa

    with open_bytes(path) as stream:
        # A Parquet file is read from its end, so decompress it into memory.
        content = read_whole(path, expansion) if is_packed(path) else None
        try:
            source = stream if content is None else pa.BufferReader(content)
            yield from _rows(path, source, columns, expansion, content)
        # A damaged file raises any of these, from its footer or from the middle of a column.
        except (pa.ArrowException, ValueError, OSError, MemoryError, KeyError, TypeError, OverflowError) as error:
            raise InputError(f"{path} is not a valid Parquet file: {first_line(error)}") from error


def _rows(
    path: Path, source: Any, columns: Sequence[str], expansion: Expansion, content: bytes | None
) -> Iterator[Row]:
    import pyarrow.parquet as pq

    plain = pq.ParquetFile(source)
    names = plain.schema_arrow.names
    for column in columns:
        if names.count(column) != 1:
            raise missing_column(str(path), column, names)
    promised = read_footer_size(path, columns, content)
    Expansion(expansion.path, expansion.maximum).add(promised.text_bytes, rows=promised.rows)
    file = pq.ParquetFile(source, read_dictionary=_text_columns(plain.schema), page_checksum_verification=True)
    number = 0
    for batch in file.iter_batches(batch_size=MAX_BATCH_ROWS, columns=list(columns)):
        for values in batch_rows(batch, columns, expansion):
            number += 1
            yield number, values


def _text_columns(schema: Any) -> list[str]:
    """Return the paths of the columns with text, also inside lists and objects."""
    columns = map(schema.column, range(len(schema)))
    return [each.path for each in columns if each.physical_type == "BYTE_ARRAY" and each.logical_type.type == "STRING"]
