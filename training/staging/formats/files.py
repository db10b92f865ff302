"""Open the user's files, and turn every error into an `InputError` with a one-sentence message."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from training.contract.errors import InputError, nearest
from training.staging.formats.compression import compression_of, is_packed
from training.staging.formats.expansion import Expansion
from training.staging.formats.text_format import DEFAULT_FORMAT, TextFormat, as_utf8, encoding_advice, encoding_hint

MAX_LINE_BYTES = 32 * 1024**2
START_BYTES = 2**20
"""Stored bytes from which the number of lines in a file is estimated."""
BYTE_ORDER_MARK = "\ufeff"
NUL_BYTE = "contains a NUL byte; the file must be UTF-8 text"


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
                with io.BufferedReader(cast(io.RawIOBase, compression.unpacked(raw))) as unpacked:
                    yield raw, unpacked
    except EOFError as error:
        raise _truncated(path, name) from error
    except zlib.error as error:
        raise InputError(f"{path} is not a valid {name} file: {error}") from error
    except OSError as error:
        if compression is None or error.errno is not None:
            raise InputError(f"{path} cannot be read: {_reason(error)}") from error
        if str(error).startswith("Truncated"):  # pyarrow has no class for it
            raise _truncated(path, name) from error
        raise InputError(f"{path} is not a valid {name} file: {error}") from error


def _truncated(path: Path, name: str) -> InputError:
    return InputError(f"{path} is a truncated {name} file: it ends before its end marker")


@contextmanager
def open_text(path: Path, text: TextFormat) -> Iterator[BinaryIO]:
    """Open a text file of any encoding as UTF-8, and decompress it if its suffix says so."""
    with open_bytes(path) as stream:
        yield as_utf8(path, stream, text)


def read_start(path: Path, text: TextFormat) -> tuple[bytes, float]:
    """Return the start of a text file as UTF-8, and its approximate share of the file, above 0 to 1."""
    with _open(path) as (raw, content):
        stream, start = as_utf8(path, content, text), b""
        while raw.tell() < START_BYTES and len(start) < MAX_LINE_BYTES and (part := stream.read(START_BYTES // 4)):
            start += part
        return start, max(raw.tell(), 1) / path.stat().st_size


def read_whole(path: Path, expansion: Expansion) -> bytes:
    """Return the content of a file. Raises InputError if a compressed file contains more than the limit."""
    with open_bytes(path) as stream:
        if not is_packed(path):
            return stream.read()
        content = stream.read(expansion.limit + 1)
    if len(content) > expansion.limit:
        raise expansion.error()
    return content


def text_lines(path: Path, expansion: Expansion, text: TextFormat = DEFAULT_FORMAT) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its line end) for each line. Only one line is in memory at a time.

    Raises InputError if a compressed file contains more than the limit. Blank lines count too.
    """
    number, packed = 0, is_packed(path)
    with open_text(path, text) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if packed:
                expansion.add(len(line))
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{path} line {number} is longer than {MAX_LINE_BYTES // 1024**2} MiB")
            yield number, _decode(path, number, line, text.prefix)
    if number == 0:
        raise InputError(f"{path} is empty")


def _decode(path: Path, number: int, line: bytes, prefix: str) -> str:
    if b"\0" in line:
        raise InputError(_first_line_hint(path, number, line, prefix) or f"{path} line {number} {NUL_BYTE}")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise InputError(
            _first_line_hint(path, number, line, prefix)
            or f"{path} line {number} is not UTF-8: {byte} is invalid; {encoding_advice(prefix)}"
        ) from error
    return text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def _first_line_hint(path: Path, number: int, line: bytes, prefix: str) -> str | None:
    hint = encoding_hint(line, prefix) if number == 1 else None
    return None if hint is None else f"{path} {hint}"


def digest_file(path: Path) -> str:
    """Return the SHA-256 of the file's bytes as stored: a compressed file is not decompressed."""
    check_file(path)
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error
