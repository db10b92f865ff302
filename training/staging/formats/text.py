"""Read text of any encoding, line by line or in pieces. Errors name the line, and the encoding to try."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from training.contract.errors import InputError, nearest
from training.staging.formats.files import COMPRESSIONS, open_bytes

UTF8 = "utf-8"
NOT_OF_FILES = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"})
"""Encodings of Python that data files do not have."""
COMMON_ENCODINGS = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1251", "gb18030", "shift_jis", "euc-kr", "big5")
MAX_LINE_CHARACTERS = 32 * 1024**2
BYTE_ORDER_MARK = "\ufeff"
ZIP_SIGNATURE = b"PK\x03\x04"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
INVALID = re.compile("[\udc80-\udcff]")
"""Characters that stand for bytes that are no text, by Python's handler `surrogateescape`."""


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """Properties of data files that their content does not show for certain."""

    encoding: str = UTF8
    """Encoding, as `encoding_name` returns it."""
    delimiter: str | None = None
    """Character between the fields of a table; None finds it in the header."""
    max_expansion: float | None = None
    """Largest content of a compressed file, as a multiple of its size; None sets no limit."""
    prefix: str = "data."
    """Text before the names of these fields in messages."""

    @property
    def identity(self) -> str:
        """Text that differs between formats that give different rows; empty for the default."""
        encoding = "" if self.encoding == UTF8 else f" encoding {self.encoding}"
        return encoding + ("" if self.delimiter is None else f" delimiter {self.delimiter!r}")


DEFAULT_FORMAT = TextFormat()


def encoding_name(name: str) -> str:
    """Return Python's name of an encoding. Raises ValueError for a name that is not one of a text encoding."""
    try:
        "".encode(name)
        known = codecs.lookup(name).name
    except (LookupError, ValueError):  # ValueError: the name contains a NUL.
        known = ""
    if not known or known.replace("-", "_") in NOT_OF_FILES:
        listed, hint = ", ".join(COMMON_ENCODINGS), nearest(name, COMMON_ENCODINGS)
        raise ValueError(f"{name[:60]!r} is not an encoding of text, such as {listed}.{hint}")
    return UTF8 if known == "utf-8-sig" else known


def delimiter_character(name: str) -> str:
    """Return a delimiter. `tab` and `\\t` stand for a tab. Raises ValueError for anything that cannot be one."""
    character = "\t" if name in {"tab", "\\t"} else name
    if len(character) != 1 or character in '"\r\n\0':
        raise ValueError(f"a delimiter must be one character, such as ; or | or tab, not {name[:20]!r}")
    return character


@contextmanager
def open_text(path: Path, text: TextFormat) -> Iterator[TextIO]:
    """Open a text file, and decompress it if its suffix says so. Line ends are not translated."""
    with open_bytes(path, text.max_expansion) as stream:
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


def text_lines(path: Path, text: TextFormat) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its line end) for each line. Only one line is in memory at a time."""
    number = 0
    with open_text(path, text) as stream:
        while line := stream.readline(MAX_LINE_CHARACTERS + 1):
            number += 1
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
