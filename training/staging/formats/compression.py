"""Decompress files while they are read: gzip, bzip2 and Zstandard, by the last suffix."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast


@dataclass(frozen=True)
class Compression:
    """A format of compressed files."""

    name: str
    """Name for messages."""
    signature: bytes
    """First bytes of every such file."""
    unpacked: Callable[[BinaryIO], BinaryIO]
    """Return the content of an open file. Little of it is in memory at a time."""


class _Zstandard(io.RawIOBase):
    """Content of a Zstandard file. Its decoder keeps a window of at most 128 MiB, whatever the file requests."""

    def __init__(self, raw: BinaryIO) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


COMPRESSIONS: dict[str, Compression] = {
    ".gz": Compression("gzip", b"\x1f\x8b", lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw))),
    ".bz2": Compression("bzip2", b"BZh", lambda raw: cast(BinaryIO, bz2.BZ2File(raw))),
    ".zst": Compression("Zstandard", b"\x28\xb5\x2f\xfd", lambda raw: cast(BinaryIO, _Zstandard(raw))),
}
"""Formats by suffix."""


def compression_of(path: Path) -> Compression | None:
    """Return the compression of a file by its suffix, or None."""
    return COMPRESSIONS.get(path.suffix.lower())


def is_packed(path: Path) -> bool:
    """Return whether a file is decompressed when it is read."""
    return compression_of(path) is not None


def plain_path(path: Path) -> Path:
    """Return the path without the suffix of its compression."""
    return path.with_suffix("") if is_packed(path) else path
