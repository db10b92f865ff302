"""Decompress files while they are read: gzip, bzip2 and Zstandard, by the last suffix."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO


@dataclass(frozen=True)
class Compression:
    """A format of compressed files."""

    name: str
    """Name for messages."""
    signature: bytes
    """First bytes of every such file."""
    unpacked: Callable[[BinaryIO], Any]
    """Return the content of an open file. Little of it is in memory at a time."""


def _zstandard(raw: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")


COMPRESSIONS: dict[str, Compression] = {
    ".gz": Compression("gzip", b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    ".bz2": Compression("bzip2", b"BZh", bz2.BZ2File),
    ".zst": Compression("Zstandard", b"\x28\xb5\x2f\xfd", _zstandard),
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
