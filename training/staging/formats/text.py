"""Read text of any encoding, line by line or in pieces. Errors name the line, and the encoding to try."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from training.contract.errors import InputError
from training.staging.formats.compression import COMPRESSIONS, is_packed
from training.staging.formats.expansion import Expansion
from training.staging.formats.files import open_bytes
from training.staging.formats.text_format import DEFAULT_FORMAT, UTF8, TextFormat

MAX_LINE_CHARACTERS = 32 * 1024**2
BYTE_ORDER_MARK = "\ufeff"
ZIP_SIGNATURE = b"PK\x03\x04"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
INVALID = re.compile("[\udc80-\udcff]")
"""Characters that stand for bytes that are no text, by Python's handler `surrogateescape`."""


@contextmanager
def open_text(path: Path, text: TextFormat) -> Iterator[TextIO]:
    """Open a text file, and decompress it if its suffix says so. Line ends are not translated."""
    with open_bytes(path) as stream:
        _check_is_not_utf8(path, stream, text)
        content = io.TextIOWrapper(stream, text.encoding, errors="surrogateescape", newline="\n")
        try:
            yield content
        except UnicodeError as error:  # such as half a character at the end of UTF-16
            reason = error.reason if isinstance(error, UnicodeDecodeError) else error
            raise InputError(f"{path} is not {text.encoding}: {reason}; correct {text.prefix}encoding") from error


def _check_is_not_utf8(path: Path, stream: BinaryIO, text: TextFormat) -> None:
    """Raise InputError for UTF-8 where one byte would be one character: it would be read without an error."""
    if text.encoding == UTF8 or len(b"\xc3\xa9".decode(text.encoding, "replace")) != 2:
        return
    start: bytes = stream.peek()  # type: ignore[attr-defined]
    with suppress(UnicodeDecodeError):
        if not codecs.getincrementaldecoder(UTF8)().decode(start).isascii():
            raise InputError(f"{path} is UTF-8, not {text.encoding}; remove {text.prefix}encoding")


def text_lines(path: Path, expansion: Expansion, text: TextFormat = DEFAULT_FORMAT) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its line end) for each line. Only one line is in memory at a time.

    Raises InputError if a compressed file contains more than the limit. Blank lines count too.
    """
    number, packed = 0, is_packed(path)
    with open_text(path, text) as stream:
        while line := stream.readline(MAX_LINE_CHARACTERS + 1):
            number += 1
            if packed:
                expansion.add(len(line))
            if len(line) > MAX_LINE_CHARACTERS:
                raise InputError(f"{path} line {number} is longer than {MAX_LINE_CHARACTERS // 1024**2} MiB")
            if (at := first_invalid(line)) is not None:
                raise not_text(path, number, at + 1, line, at, text)
            yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    if number == 0:
        raise InputError(f"{path} is empty")


def first_invalid(content: str) -> int | None:
    """Return the index of the first NUL, or else of the first byte of another encoding; None without any."""
    if "\0" in content:
        return content.index("\0")
    match = None if content.isascii() else INVALID.search(content)
    return match and match.start()


def not_text(path: Path, line: int, column: int, content: str, at: int, text: TextFormat) -> InputError:
    """Return the error for the character `at` of some content, which is not text."""
    is_start = line == 1 and column == at + 1 and text.encoding == UTF8
    if is_start and (hint := _hint(content.encode(UTF8, "surrogateescape"), text)):
        return InputError(f"{path} {hint}")
    if content[at] == "\0":
        return InputError(f"{path} line {line} contains a NUL byte; the file must be UTF-8 text")
    name, advice = text.encoding, f"correct {text.prefix}encoding"
    if name == UTF8:
        name, advice = "UTF-8", f"set {text.prefix}encoding to the file's encoding, such as cp1252"
    byte = f"byte 0x{ord(content[at]) - 0xDC00:02x} at column {column}"
    return InputError(f"{path} line {line} is not {name}: {byte} is invalid; {advice}")


def _hint(start: bytes, text: TextFormat) -> str | None:
    """Return the kind of bytes that are not UTF-8, with advice, as the end of a sentence; None if it is unknown."""
    if start.startswith(UTF16_MARKS):
        return f"begins with the byte order mark of UTF-16; set {text.prefix}encoding to utf-16"
    if start.startswith(ZIP_SIGNATURE):
        return "is a ZIP archive or an Excel workbook; unpack it, or save its sheet as CSV"
    for suffix, compression in COMPRESSIONS.items():
        if start.startswith(compression.signature):
            return f"is compressed with {compression.name}; give its name the suffix {suffix}"
    for name, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if zeros.count(0) > len(start) // 4 and start.count(0) == zeros.count(0):
            return f"looks like UTF-16; set {text.prefix}encoding to {name}"
    return None
