"""Encoding and delimiter of text files, and text of any encoding as UTF-8."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from training.contract.errors import InputError, nearest
from training.staging.formats.compression import COMPRESSIONS

UTF8 = "utf-8"
NOT_OF_FILES = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"})
"""Encodings of Python that data files do not have."""
COMMON_ENCODINGS = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1251", "gb18030", "shift_jis", "euc-kr", "big5")
CHUNK_BYTES = 2**16
ZIP_SIGNATURE = b"PK\x03\x04"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """Properties of text files that their content does not show for certain."""

    encoding: str = UTF8
    """Encoding, as `encoding_name` returns it."""
    delimiter: str | None = None
    """Character between the fields of a table; None finds it in the header."""
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


class _AsUtf8(io.RawIOBase):
    """Text of any encoding, as UTF-8. A chunk of it is in memory at a time."""

    def __init__(self, path: Path, stream: BinaryIO, text: TextFormat) -> None:
        self._path, self._stream, self._text = path, stream, text
        self._decoder = codecs.getincrementaldecoder(text.encoding)()
        self._ready, self._bytes = b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            data = self._stream.read(CHUNK_BYTES)
            if not self._bytes:
                _check_is_not_utf8(self._path, data, self._text)
            self._ready = self._decoded(data).encode("utf-8", "surrogatepass")
            self._bytes += len(data)
            if not data:
                break
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decoded(self, data: bytes) -> str:
        waiting = self._decoder.getstate()[0]
        try:
            return self._decoder.decode(data, final=not data)
        except UnicodeError as error:
            at = f" at byte {self._bytes - len(waiting) + error.start}" if isinstance(error, UnicodeDecodeError) else ""
            reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
            raise InputError(
                f"{self._path} is not {self._text.encoding}{at}: {reason}; correct {self._text.prefix}encoding"
            ) from error


def as_utf8(path: Path, stream: BinaryIO, text: TextFormat) -> BinaryIO:
    """Return the text of a stream as UTF-8. Reading raises InputError for text that has another encoding."""
    return stream if text.encoding == UTF8 else io.BufferedReader(_AsUtf8(path, stream, text))


def _check_is_not_utf8(path: Path, start: bytes, text: TextFormat) -> None:
    """Raise InputError for UTF-8 where one byte would be one character: it would be read without an error."""
    if start.isascii() or len(b"\xc3\xa9".decode(text.encoding, "replace")) != 2:
        return
    try:
        codecs.getincrementaldecoder(UTF8)().decode(start)
    except UnicodeDecodeError:
        return
    raise InputError(f"{path} is UTF-8, not {text.encoding}; remove {text.prefix}encoding")


def encoding_advice(prefix: str) -> str:
    """Return the end of a sentence about a file in an unknown encoding."""
    return f"set {prefix}encoding to the file's encoding, such as cp1252"


def encoding_hint(start: bytes, prefix: str) -> str | None:
    """Return the kind of bytes that are not UTF-8, with advice, as the end of a sentence; None if it is unknown."""
    start = start[:CHUNK_BYTES]
    if start.startswith(UTF16_MARKS):
        return f"begins with the byte order mark of UTF-16; set {prefix}encoding to utf-16"
    if start.startswith(ZIP_SIGNATURE):
        return "is a ZIP archive or an Excel workbook; unpack it, or save its sheet as CSV"
    for suffix, compression in COMPRESSIONS.items():
        if start.startswith(compression.signature):
            return f"is compressed with {compression.name}; give its name the suffix {suffix}"
    if b"\0" not in start:
        return None
    zeros = start.count(0)
    for name, at in (("utf-16-le", 1), ("utf-16-be", 0)):
        if zeros > len(start) // 4 and start[at::2].count(0) == zeros:
            return f"looks like UTF-16; set {prefix}encoding to {name}"
    return None
