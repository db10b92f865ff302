"""Read Arrow files: the file format of Feather and the streaming format of `datasets`, one record batch at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.formats.arrow_messages import row_count, uncompressed_bytes
from training.staging.formats.compression import is_packed
from training.staging.formats.expansion import Expansion
from training.staging.formats.files import open_bytes, read_whole
from training.staging.formats.record_batches import batch_rows, first_line
from training.staging.formats.row import Row, missing_column
from training.staging.formats.text_format import TextFormat

FILE_SIGNATURE = b"ARROW1"
FILE_HEADER_BYTES = 8
"""Bytes before the stream that a file in the file format contains."""
OLD_FEATHER = b"FEA1"


def arrow_rows(path: Path, columns: Sequence[str], expansion: Expansion, _: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order.

    Raises InputError for a damaged file, or one with more rows or text than the limit. The size of each compressed
    batch is read from its header before it is decompressed.
    """
    import pyarrow as pa

    with open_bytes(path):
        try:
            # A column is read from the mapped file when it is converted, so a large batch needs little memory.
            packed = is_packed(path)
            source = pa.py_buffer(read_whole(path, expansion)) if packed else pa.memory_map(str(path)).read_buffer()
            start = source[:FILE_HEADER_BYTES].to_pybytes()
            if start.startswith(OLD_FEATHER):
                raise InputError(f"{path} is Feather of version 1; write it again with pandas' to_feather")
            content = source[FILE_HEADER_BYTES:] if start.startswith(FILE_SIGNATURE) else source
            yield from _rows(path, content, columns, expansion)
        # A damaged file raises any of these, from its schema or from the middle of a batch.
        except (pa.ArrowException, struct.error, ValueError, OSError, MemoryError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a valid Arrow file: {first_line(error)}") from error


def _rows(path: Path, content: Any, columns: Sequence[str], expansion: Expansion) -> Iterator[Row]:
    import pyarrow as pa

    with pa.ipc.open_stream(content) as stream:
        names = stream.schema.names
    for column in columns:
        if names.count(column) != 1:
            raise missing_column(str(path), column, names)
        _check_type(path, column, stream.schema.field(column).type)
    _check_batches(content, expansion)
    fields = sorted(names.index(column) for column in columns)
    options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    number = 0
    for batch in pa.ipc.open_stream(content, options=options):
        batch.validate(full=True)  # Arrow trusts the offsets of a file, also those that point outside it.
        for values in batch_rows(batch, columns, expansion):
            number += 1
            yield number, values


def _check_batches(content: Any, expansion: Expansion) -> None:
    """Raise InputError if the headers promise more rows, or in one batch more bytes, than the limit."""
    import pyarrow as pa

    promised = Expansion(expansion.path, expansion.maximum, keeps_rows=expansion.keeps_rows)
    for message in pa.ipc.MessageReader.open_stream(content):
        if uncompressed_bytes(message) > expansion.limit:
            raise expansion.error()
        if message.type == "record batch":
            promised.add(0, rows=row_count(message))


def _check_type(path: Path, column: str, kind: Any) -> None:
    """Raise InputError for a type whose size in memory is not known before it is converted."""
    import pyarrow as pa
    import pyarrow.types as types

    inner: list[Any] = []
    if types.is_dictionary(kind):
        inner = [kind.value_type]
    elif types.is_struct(kind):
        inner = [kind.field(at).type for at in range(kind.num_fields)]
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = [kind.value_type]
    elif not (types.is_primitive(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)):
        raise InputError(f"{path}: column {column!r} has the type {kind}; cast it to {pa.string()} or a number")
    for each in inner:
        _check_type(path, column, each)
