"""Open the user's files, and turn every error into an `InputError` with a one-sentence message."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from training.contract.errors import InputError, nearest
from training.staging.sources.expansion import Expansion

MAX_LINE_BYTES = 32 * 1024**2
BYTE_ORDER_MARK = "\ufeff"


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
    """Open a file, and decompress it if its name ends in `.gz`. Errors while reading become `InputError`."""
    check_file(path)
    try:
        with path.open("rb") as raw:
            if not is_packed(path):
                yield raw
            else:
                with io.BufferedReader(gzip.GzipFile(fileobj=raw)) as unpacked:
                    yield unpacked
    except EOFError as error:
        raise InputError(f"{path} is a truncated gzip file: it ends before its end marker") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is not a valid gzip file: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error


def is_packed(path: Path) -> bool:
    """Return whether `open_bytes` decompresses the file."""
    return path.suffix.lower() == ".gz"


def read_whole(path: Path, expansion: Expansion) -> bytes:
    """Return the content of a file. Raises InputError if a compressed file contains more than the limit."""
    with open_bytes(path) as stream:
        if not is_packed(path):
            return stream.read()
        content = stream.read(expansion.limit + 1)
    if len(content) > expansion.limit:
        raise expansion.error()
    return content


def text_lines(path: Path, expansion: Expansion) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its line end) for each line. Only one line is in memory at a time.

    Raises InputError if a compressed file contains more than the limit. Blank lines count too.
    """
    number, packed = 0, is_packed(path)
    with open_bytes(path) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if packed:
                expansion.add(len(line))
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{path} line {number} is longer than {MAX_LINE_BYTES // 1024**2} MiB")
            yield number, _decode(path, number, line)
    if number == 0:
        raise InputError(f"{path} is empty")


def _decode(path: Path, number: int, line: bytes) -> str:
    if b"\0" in line:
        raise InputError(f"{path} line {number} contains a NUL byte; the file must be UTF-8 text")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise InputError(f"{path} line {number} is not UTF-8: {byte} is invalid") from error
    return text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def digest_file(path: Path) -> str:
    """Return the SHA-256 of the file's bytes as stored: a compressed file is not decompressed."""
    check_file(path)
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error
