"""Read from the header of an Arrow message how large its content becomes, before it is decompressed.

A header is a FlatBuffer of the schema https://github.com/apache/arrow/blob/main/format/Message.fbs. A compressed buffer
of the body begins with its size: https://arrow.apache.org/docs/format/Columnar.html#compression.
"""

from __future__ import annotations

import struct
from typing import Any

HEADER, BUFFERS, COMPRESSION, DICTIONARY_ROWS, VALUES, LENGTH = 2, 2, 3, 1, 1, 0
"""Numbers of the fields that are read, in the order of the schema."""
BUFFER_BYTES = 16
SIZE_BYTES = 8


def uncompressed_bytes(message: Any) -> int:
    """Return the bytes of all buffers of a record batch or a dictionary. Raises struct.error for a damaged header."""
    batch = _record_batch(message)
    if batch is None or batch.field(COMPRESSION) is None:
        return message.body.size if message.body is not None else 0
    body, total = memoryview(message.body), 0
    for offset, length in batch.pairs(BUFFERS):
        if length >= SIZE_BYTES:
            (size,) = struct.unpack_from("<q", body, offset)
            total += length if size < 0 else size
    return total


def row_count(message: Any) -> int:
    """Return the rows of a record batch."""
    batch = _record_batch(message)
    return 0 if batch is None else batch.long(LENGTH)


def _record_batch(message: Any) -> _Table | None:
    if message.type not in {"record batch", "dictionary"}:
        return None
    data = memoryview(message.metadata)
    header = _Table.root(data).table(HEADER)
    return header if message.type == "record batch" else header.table(DICTIONARY_ROWS)


class _Table:
    """Table of a FlatBuffer: a position, with the positions of its fields relative to it in a separate list."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        """Return the table that a FlatBuffer contains."""
        return cls(data, cls._offset(data, 0))

    @staticmethod
    def _offset(data: memoryview, at: int) -> int:
        return at + int(struct.unpack_from("<I", data, at)[0])

    def field(self, number: int) -> int | None:
        """Return the position of a field, or None if it has the default value."""
        fields = self._at - struct.unpack_from("<i", self._data, self._at)[0]
        (size,) = struct.unpack_from("<H", self._data, fields)
        place = 4 + 2 * number
        if place + 2 > size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, fields + place)
        return self._at + offset if offset else None

    def table(self, number: int) -> _Table:
        """Return a field that is a table."""
        at = self.field(number)
        if at is None:
            raise struct.error("a table is missing")
        return _Table(self._data, self._offset(self._data, at))

    def long(self, number: int) -> int:
        """Return a field that is a 64-bit number."""
        at = self.field(number)
        return 0 if at is None else int(struct.unpack_from("<q", self._data, at)[0])

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a field that is a list of pairs of 64-bit numbers."""
        at = self.field(number)
        if at is None:
            return []
        start = self._offset(self._data, at)
        (count,) = struct.unpack_from("<I", self._data, start)
        end = start + 4 + count * BUFFER_BYTES
        return list(struct.iter_unpack("<qq", self._data[start + 4 : end]))
