"""Open the user's files, decompressed while they are read. Every error becomes an `InputError` of one sentence."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

from training.contract.errors import InputError, nearest
from training.contract.plain_text import size_text

Row = tuple[int, list[Any]]
"""Number of the line (in Parquet: of the row) from 1, and the values of the requested columns."""

MAX_COMPARED = 1_000
"""Columns that are compared with a wrong name. Comparing millions takes seconds."""
START_BYTES, MAX_START_BYTES = 2**20, 2**25
"""Stored bytes from which the number of lines in a file is estimated, and the most that they may contain."""
DEFAULT_MAX_EXPANSION = 20.0
"""Text compresses to a third or a tenth of its size. Only repeated text compresses to less than a twentieth."""
MIN_LIMIT_BYTES = 40 * 1024**2
"""Content that every compressed file may have."""


class MissingColumn(InputError):
    """A column that the data does not have."""


def missing_column(location: str, column: str, known: Sequence[str]) -> MissingColumn:
    """Return the error for a missing column. It lists the existing columns and suggests the nearest."""
    listed = ", ".join(repr(str(name)[:60]) for name in known[:20])
    guess = nearest(column, [str(name) for name in known[:MAX_COMPARED]])
    return MissingColumn(f"{location} has no column {column!r}; it has {listed or 'none'}.{guess}")


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


def is_packed(path: Path) -> bool:
    """Return whether a file is decompressed when it is read, by its last suffix."""
    return path.suffix.lower() in COMPRESSIONS


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file's format, in lower case, without that of a compression."""
    return (path.with_suffix("") if is_packed(path) else path).suffix.lower()


def check_file(path: Path) -> None:
    """Raise InputError for a file that is missing, empty or not a regular file. Reading a pipe would block."""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder, not a data file")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path} is a link to nothing")
        if not path.exists():
            raise InputError(f"{path} does not exist.{_nearest_sibling(path)}")
        if not path.is_file():
            raise InputError(f"{path} is not a regular file")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty")
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL byte.
        raise InputError(f"{str(path)!r} cannot be read: {_reason(error)}") from error


def _nearest_sibling(path: Path) -> str:
    try:
        return nearest(path.name, (sibling.name for sibling in path.parent.iterdir()))
    except OSError:
        return f" The folder {path.parent} does not exist either."


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def open_bytes(path: Path, max_expansion: float | None = None) -> Iterator[BinaryIO]:
    """Open a file, and decompress it if its suffix says so. Errors while reading become `InputError`.

    A compressed file may contain `max_expansion` times its size, and always `MIN_LIMIT_BYTES`; None sets no limit.
    """
    with _open(path, max_expansion) as (_, content):
        yield content


@contextmanager
def _open(path: Path, max_expansion: float | None) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Return the file as it is stored, and its content."""
    check_file(path)
    compression = COMPRESSIONS.get(path.suffix.lower())
    name = compression.name if compression else ""
    try:
        with path.open("rb") as raw:
            if compression is None:
                yield raw, raw
            else:
                with io.BufferedReader(_Content(path, compression.unpacked(raw), max_expansion), 2**16) as unpacked:
                    yield raw, unpacked
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and (compression is None or error.errno is not None):
            raise InputError(f"{path} cannot be read: {_reason(error)}") from error
        if isinstance(error, EOFError) or str(error).startswith("Truncated"):  # pyarrow has no class for it
            raise InputError(f"{path} is a truncated {name} file: it ends before its end marker") from error
        raise InputError(f"{path} is not a valid {name} file: {error}") from error


class _Content(io.RawIOBase):
    """Content of a compressed file, up to its limit: a small file can contain a million times its size."""

    def __init__(self, path: Path, content: Any, max_expansion: float | None) -> None:
        self._path, self._content, self._bytes = path, content, 0
        size = path.stat().st_size
        self._limit = None if max_expansion is None else max(MIN_LIMIT_BYTES, int(max_expansion * size))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._content.read(len(buffer))
        buffer[: len(data)] = data
        self._bytes += len(data)
        if self._limit is not None and self._bytes > self._limit:
            raise InputError(
                f"{self._path} has {size_text(self._path.stat().st_size)}, but contains more than "
                f"{size_text(self._limit)}; if that is right, decompress it, or increase data.max_expansion"
            )
        return len(data)


def read_start(path: Path) -> tuple[bytes, float]:
    """Return the start of a file's content, and its approximate share of the file, above 0 to 1."""
    start = b""
    with _open(path, None) as (raw, content):
        while raw.tell() < START_BYTES and len(start) < MAX_START_BYTES and (part := content.read(START_BYTES // 4)):
            start += part
        return start, max(raw.tell(), 1) / path.stat().st_size


@contextmanager
def unpacked_file(path: Path, max_expansion: float | None) -> Iterator[Path]:
    """Return a file that pyarrow can open: the file itself, or a temporary one with its decompressed content."""
    with open_bytes(path, max_expansion) as stream:
        if not is_packed(path):
            yield path
            return
        with NamedTemporaryFile() as file:
            while part := stream.read(START_BYTES):
                file.write(part)
            file.flush()
            yield Path(file.name)


def digest_file(path: Path) -> str:
    """Return the SHA-256 of the file's bytes as stored: a compressed file is not decompressed."""
    check_file(path)
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error
