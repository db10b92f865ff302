"""Open the user's files, decompressed and decoded while they are read.

Every error becomes an `InputError` of one sentence, which names the line and, for text, the encoding to try.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, TextIO

from state.digests import file_digest
from training.contract.errors import InputError, nearest, nearest_sibling
from training.job.tasks import TASKS

Row = tuple[int, list[Any] | InputError]
"""Number of the line (in Parquet: of the row) from 1, and the values of the requested columns, or why it has none."""

MAX_COMPARED = 1_000
"""Columns that are compared with a wrong name. Comparing millions takes seconds."""
START_BYTES, MAX_START_BYTES = 2**20, 2**25
"""Stored bytes from which the number of lines in a file is estimated, and the most that they may contain."""
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


class MissingColumn(InputError):
    """A column that the data does not have."""


def missing_column(location: str, column: str, known: Sequence[str], otherwise: str = "") -> MissingColumn:
    """Return the error for a missing column. It lists the existing columns and suggests a task or the nearest."""
    listed = ", ".join(repr(str(name)[:60]) for name in known[:20])
    guess = nearest(column, [str(name) for name in known[:MAX_COMPARED]]) + _task_of(known) or otherwise
    return MissingColumn(f"{location} has no column {column!r}; it has {listed or 'none'}.{guess}")


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column, or of a dotted path into its objects. Raises KeyError."""
    value: Any = row
    for name in [column] if column in row else column.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping) or name not in value:
            raise KeyError(column)
        value = value[name]
    return value


def dotted_names(row: Mapping[str, Any]) -> list[str]:
    """Return the names of all values, with dotted paths to those in objects."""
    inner = {name: dotted_names(value) if isinstance(value, Mapping) else [] for name, value in row.items()}
    return [path for name, paths in inner.items() for path in [f"{name}.{each}" for each in paths] or [name]]


def _task_of(known: Sequence[str]) -> str:
    """Return a sentence with the task that reads data of these columns, or an empty string."""
    for task in TASKS.values():
        for columns, fields in task.usual_columns.items():
            if set(columns) <= set(known):
                return f" To train on {' and '.join(map(repr, columns))}, set {fields}."
    return ""


@dataclass(frozen=True)
class Compression:
    name: str
    signature: bytes
    """First bytes of every such file."""
    unpacked: Callable[[BinaryIO], Any]
    """Return the content of an open file. Little of it is in memory at a time."""


def _zstandard(raw: BinaryIO) -> Any:
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))


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
    """Return the suffix of a file's format, in lower case, without the suffix of a compression."""
    return (path.with_suffix("") if is_packed(path) else path).suffix.lower()


def check_file(path: Path) -> None:
    """Raise InputError for a file that is missing, empty or not a regular file. Reading a pipe would block."""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder, not a data file")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path} is a link to nothing")
        if not path.exists():
            hint = "" if path.parent.is_dir() else f" The folder {path.parent} does not exist either."
            raise InputError(f"{path} does not exist.{hint or nearest_sibling(path)}")
        if not path.is_file():
            raise InputError(f"{path} is not a regular file")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty")
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL byte.
        raise InputError(f"{str(path)!r} cannot be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield the file as it is stored, and its content, which is decompressed if its suffix says so.

    Errors while reading become `InputError`.
    """
    check_file(path)
    compression = COMPRESSIONS.get(path.suffix.lower())
    name = compression.name if compression else ""
    try:
        with path.open("rb") as raw:
            if compression is None:
                yield raw, raw
            else:
                with compression.unpacked(raw) as unpacked:
                    yield raw, unpacked
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and (compression is None or error.errno is not None):
            raise InputError(f"{path} cannot be read: {_reason(error)}") from error
        if isinstance(error, EOFError) or str(error).startswith("Truncated"):  # pyarrow has no class for it
            raise InputError(f"{path} is a truncated {name} file: it ends before its end marker") from error
        raise InputError(f"{path} is not a valid {name} file: {error}") from error


def read_start(path: Path) -> tuple[bytes, float]:
    """Return the start of a file's content, and its approximate share of the file, above 0 to 1."""
    start = b""
    with open_bytes(path) as (raw, content):
        while raw.tell() < START_BYTES and len(start) < MAX_START_BYTES and (part := content.read(START_BYTES // 4)):
            start += part
        return start, max(raw.tell(), 1) / path.stat().st_size


@contextmanager
def unpacked_file(path: Path) -> Iterator[Path]:
    """Return a file that pyarrow can open: the file itself, or a temporary one with its decompressed content."""
    with open_bytes(path) as (_, stream):
        if not is_packed(path):
            yield path
            return
        with NamedTemporaryFile() as file:
            shutil.copyfileobj(stream, file)
            file.flush()
            yield Path(file.name)


def digest_file(path: Path) -> str:
    """Return the SHA-256 of the file's bytes as stored: a compressed file is not decompressed."""
    check_file(path)
    try:
        return file_digest(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}") from error


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """Properties of data files that their content does not show for certain."""

    encoding: str = UTF8
    """Encoding, as `encoding_name` returns it."""
    delimiter: str | None = None
    """Character between the fields of a table; None finds it in the header."""
    header: tuple[str, ...] | None = None
    """Names of a table's columns if its first line does not have them."""
    prefix: str = "data."
    """Text before the names of these fields in messages."""

    @property
    def identity(self) -> str:
        """Text that differs between formats that give different rows; empty for the default."""
        encoding = "" if self.encoding == UTF8 else f" encoding {self.encoding}"
        header = "" if self.header is None else f" header {self.header!r}"
        return encoding + ("" if self.delimiter is None else f" delimiter {self.delimiter!r}") + header


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
    with open_bytes(path) as (_, stream):
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
