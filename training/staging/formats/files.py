"""Open the user's files, and turn every error into an `InputError` with a one-sentence message."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from training.contract.errors import InputError, nearest
from training.staging.formats.compression import compression_of, is_packed
from training.staging.formats.expansion import Expansion
from training.staging.formats.text_format import UTF8, TextFormat

START_BYTES, MAX_START_BYTES = 2**20, 2**25
"""Stored bytes from which the number of lines in a file is estimated, and the most that they may contain."""


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
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and decompress it if its suffix says so. Errors while reading become `InputError`."""
    with _open(path) as (_, content):
        yield content


@contextmanager
def _open(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Return the file as it is stored, and its content."""
    check_file(path)
    compression = compression_of(path)
    name = compression.name if compression else ""
    try:
        with path.open("rb") as raw:
            if compression is None:
                yield raw, raw
            else:
                with io.BufferedReader(compression.unpacked(raw)) as unpacked:
                    yield raw, unpacked
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and (compression is None or error.errno is not None):
            raise InputError(f"{path} cannot be read: {_reason(error)}") from error
        if isinstance(error, EOFError) or str(error).startswith("Truncated"):  # pyarrow has no class for it
            raise InputError(f"{path} is a truncated {name} file: it ends before its end marker") from error
        raise InputError(f"{path} is not a valid {name} file: {error}") from error


def read_start(path: Path, text: TextFormat) -> tuple[bytes, float]:
    """Return the start of a text file as UTF-8, and its approximate share of the file, above 0 to 1."""
    start = b""
    with _open(path) as (raw, content):
        while raw.tell() < START_BYTES and len(start) < MAX_START_BYTES and (part := content.read(START_BYTES // 4)):
            start += part
        share = max(raw.tell(), 1) / path.stat().st_size
    return start if text.encoding == UTF8 else start.decode(text.encoding, "replace").encode(), share


@contextmanager
def unpacked_file(path: Path, expansion: Expansion) -> Iterator[Path]:
    """Return a file that pyarrow can open: the file itself, or a temporary one with its decompressed content.

    Raises InputError if a compressed file contains more than the limit.
    """
    with open_bytes(path) as stream:
        if not is_packed(path):
            yield path
            return
        with NamedTemporaryFile() as file:
            while part := stream.read(START_BYTES):
                file.write(part)
                if file.tell() > expansion.limit:
                    raise expansion.error()
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
