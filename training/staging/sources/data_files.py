"""Files of one source of rows, which are read in order: a file, or all files of a folder or of a pattern.

Objects in S3 are identified by their ETags, and copied here only while they are staged.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from state.digests import digest
from state.folders import UNFINISHED_PREFIX
from state.regular_files import user_path
from training.contract.errors import InputError
from training.contract.s3_location import AccountFields, Location, location_of
from training.staging.formats.files import UTF8, MissingColumn, Row, TextFormat, check_file, digest_file, is_packed
from training.staging.formats.readers import (
    BINARY,
    delimiter_name,
    is_table,
    is_usual,
    read_rows,
    reader_name,
    table_delimiter,
    unit_of,
)

MAX_FILES = 10_000
LISTED = 5
IGNORED = (".", "_")
"""Beginnings of file names that are no data: hidden files, and what Spark writes next to the data."""
START_BYTES = 8 * 2**20
"""Bytes of the objects that a plan reads. They hold the 1,000 rows of its sample, unless rows are very long."""
PACKED_FACTOR = 4
"""Text in a compressed or Parquet file, as a multiple of the file's size."""
DATASET_STATE, DATASET_DICT = "state.json", "dataset_dict.json"
"""Files by which a folder of `save_to_disk` of `datasets` is known: one data set, and several by their splits."""
LINES = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".txt"})
"""Formats whose rows can be read from the start of a file, and counted from its size."""


@dataclass(frozen=True, kw_only=True)
class DataFiles:
    """Files that are read one after the other, in the order of their names."""

    name: str
    """File, folder or pattern as requested, for messages."""
    paths: tuple[Path, ...]
    """The files, at least one, all of the same format."""

    @property
    def reader_name(self) -> str:
        """Suffix that determines the reader."""
        return reader_name(self.paths[0])

    @property
    def text_bytes(self) -> int:
        """Approximate size of the files' text."""
        return sum(map(text_bytes, self.paths))

    def digest(self, text: TextFormat) -> str:
        """Return text that identifies the rows of the files by their contents and order, not by their names.

        It includes the suffix, because the same bytes give different rows as .csv and as .tsv.
        """
        identity = "" if self.reader_name in BINARY else text.identity
        parts = [f"{reader_name(path)} {path.suffix} {digest_file(path)}{identity}" for path in self.paths]
        return parts[0] if len(parts) == 1 else f"{len(parts)} files {digest(chr(10).join(parts))}"

    def described(self, columns: Sequence[str], text: TextFormat) -> str:
        """Return the files with what their names do not show: their number, encoding and delimiter."""
        details = [f"{len(self.paths):,} files"] if len(self.paths) > 1 else []
        if self.reader_name not in BINARY and text.encoding != UTF8:
            details.append(text.encoding)
        with suppress(InputError):  # Reading the rows reports it, with its place.
            tables = [path for path in self.paths if is_table(path)]
            delimiters = dict.fromkeys(table_delimiter(path, columns, text) for path in tables)
            if len(delimiters) > 1 or not all(is_usual(tables[0], each) for each in delimiters):
                details.append(f"delimiter {' or '.join(map(delimiter_name, delimiters))}")
        return self.name + (f" ({', '.join(details)})" if details else "")

    def close(self) -> None:
        """Do nothing: the files stay."""


def text_bytes(path: Path, size: int | None = None) -> int:
    """Return the approximate size of a file's text. `size` is the file's, if it is not here."""
    size = path.stat().st_size if size is None else size
    return size * PACKED_FACTOR if is_packed(path) or path.suffix.lower() in BINARY else size


def find_data_files(name: str) -> DataFiles:
    """Return the files of a path or pattern. Raises InputError if one is missing, empty or not a regular file."""
    path = user_path(name, "data file")
    try:
        if path.is_dir():
            paths = _files_of_folder(path)
        elif glob.has_magic(name) and "\0" not in name and not path.is_symlink() and not path.exists():
            paths = _matches(path)
        else:
            paths = [path]
    except (OSError, ValueError):  # `check_file` reports the reason.
        paths = [path]
    for each in paths:
        check_file(each)
    formats = {reader_name(each): each.name for each in paths} if len(paths) > 1 else {}
    if len(formats) > 1:
        listed = " and ".join(f"{name!r}" for name in list(formats.values())[:2])
        raise InputError(
            f"the files of {path} must have one format, but {listed} differ; use a pattern, such as '*.csv'"
        )
    return DataFiles(name=str(path), paths=tuple(paths))


def _files_of_folder(folder: Path) -> list[Path]:
    if (folder / DATASET_STATE).is_file():
        return sorted(folder.glob("*.arrow"))
    check_is_no_dict(folder)
    paths = _limited(folder, "contains", _data(folder.iterdir()))
    pattern = str(folder / "*.jsonl")
    if not paths:
        raise InputError(f"{folder} is a folder without data files")
    if (inner := next((path for path in paths if path.is_dir()), None)) is not None:
        raise InputError(
            f"{folder} contains the folder {inner.name!r}; name the files with a pattern, such as {pattern!r}"
        )
    for path in paths:
        try:
            reader_name(path)
        except InputError as error:
            raise InputError(f"{error}, or name the files to read with a pattern, such as {pattern!r}") from error
    return paths


def check_is_no_dict(folder: Path) -> None:
    """Raise InputError for a folder with the splits of a data set, as `save_to_disk` of `datasets` writes it."""
    if (folder / DATASET_DICT).is_file():
        splits = sorted(path.parent.name for path in folder.glob(f"*/{DATASET_STATE}"))
        example = folder / ("train" if "train" in splits else "SPLIT")
        raise InputError(
            f"{folder} was written by save_to_disk, with a folder for each split ({', '.join(splits)}): set data.train "
            f"to one of them, such as {example}"
        )


def _matches(path: Path) -> list[Path]:
    if "**" in path.parts:
        raise InputError(f"{path} contains **, which may match everything; write one * for each level of folders")
    matches = map(Path, glob.iglob(str(path)))  # noqa: PTH207 - it accepts absolute paths
    paths = _limited(path, "matches", matches if path.name.startswith(IGNORED) else _data(matches))
    if not paths:
        folder = next(each for each in path.parents if not glob.has_magic(str(each)))
        if not folder.is_dir():
            raise InputError(f"{path} matches no file; the folder {folder} does not exist")
        names = sorted(each.name for each in islice(_data(folder.iterdir()), 1_000))
        listed = ", ".join(repr(name[:60]) for name in names[:LISTED]) or "no files"
        raise InputError(
            f"{path} matches no file; the folder {folder} has {listed}{' ...' if len(names) > LISTED else ''}"
        )
    return paths


def _data(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if not path.name.startswith(IGNORED))


def _limited(path: Path, verb: str, paths: Iterable[Path]) -> list[Path]:
    limited = list(islice(paths, MAX_FILES + 1))
    if len(limited) > MAX_FILES:
        raise InputError(f"{path} {verb} more than {MAX_FILES:,} files; join them into fewer")
    return sorted(limited)


class FileRows:
    """Rows of files. Can be iterated over once. One file is open at a time.

    The numbers of the rows continue from file to file: the second file's first row follows the first file's last.
    """

    def __init__(self, files: DataFiles, columns: Sequence[str], text: TextFormat) -> None:
        self._files, self._columns, self._text = files, columns, text
        self._starts: list[int] = []
        self._unit_of = cache(lambda path: unit_of(path, columns, text))
        self._rows = self._read()

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def __next__(self) -> Row:
        return next(self._rows)

    def location(self, number: int) -> str:
        """Return the location of a row that was read, such as `a.csv line 3`."""
        at = max(bisect_left(self._starts, number) - 1, 0)
        path, start = self._files.paths[at], self._starts[at] if self._starts else 0
        return f"{path} {self._unit_of(path)} {number - start}"

    def _read(self) -> Iterator[Row]:
        last = 0
        for path in self._files.paths:
            start = last
            self._starts.append(start)
            try:
                for number, values in read_rows(path, self._columns, self._text):
                    last = start + number
                    yield last, values
            except MissingColumn as error:
                if path == self._files.paths[0] or not is_table(path):
                    raise
                raise InputError(
                    f"{error} Each file needs the header. If `split` made the files, only the first has it: join them "
                    "with `cat`"
                ) from error


@dataclass(frozen=True, kw_only=True)
class Start:
    """Files of which the first rows are read, and from which the number of all rows follows."""

    files: DataFiles
    scales: Mapping[Path, float] = field(default_factory=dict)
    """Bytes that a file stands for, as a multiple of its size; 1 for a file that is missing."""
    is_cut: bool = False
    """True if the end of a file is missing, so that an error may be due to the cut."""


class StoredFiles:
    """An object (`s3://bucket/rows.csv`), or the objects of a folder (`s3://bucket/rows/`) in the order of their keys.

    Their suffix determines their format. Call `close` to delete the copies.
    """

    def __init__(self, field: str, uri: str, folder: Path, account: AccountFields) -> None:
        """List the objects. Copies go into a temporary folder within `folder`. Raises InputError, AccessError."""
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.storage import list_objects, version_of

        self._field, self._folder, self._clients = field, folder, Clients(account.region, account.profile)
        self._location = location_of(field, uri)
        objects = list(list_objects(self._clients, field, self._location))
        self._objects = _data_objects(field, self._location, objects)
        self._version = version_of(self._objects)
        self._copies: Path | None = None
        self._uris: dict[str, str] = {}

    def digest(self, text: TextFormat) -> str:
        """Return text that identifies the rows by the version of the objects and the format of texts."""
        return f"s3 {self._version.digest}{'' if self._reader_name in BINARY else text.identity}"

    def described(self, *_: object) -> str:
        """Return the URI with the number and size of the objects."""
        return f"{self._location.uri} ({self._version.size_text})"

    @property
    def uri(self) -> str:
        """Object or folder as requested."""
        return self._location.uri

    def copies(self) -> DataFiles:
        """Return copies of the objects, which are made once. Raises InputError if one has changed since the listing."""
        if self._copies is None:
            folder = self._new_folder()
            for number, each in enumerate(self._objects):
                self._download(each, folder / _file_name(number, each["Key"]))
        return DataFiles(name=self.uri, paths=tuple(map(Path, self._uris)))

    def _new_folder(self) -> Path:
        """Make the folder of the copies. `jobs prune` deletes what a killed process left."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._copies = Path(tempfile.mkdtemp(prefix=UNFINISHED_PREFIX, dir=self._folder))
        return self._copies

    def _download(self, stored: Mapping[str, Any], path: Path, most_bytes: int | None = None) -> None:
        from training.services.sagemaker.storage import download

        location = Location(self._location.bucket, stored["Key"])
        download(self._clients, self._field, location, stored["ETag"], path, most_bytes=most_bytes)
        self._uris[str(path)] = location.uri

    @property
    def text_bytes(self) -> int:
        """Approximate size of the objects' text."""
        return text_bytes(Path(self._objects[0]["Key"]), self._version.size_bytes)

    @property
    def _reader_name(self) -> str:
        return reader_name(Path(self._objects[0]["Key"]))

    def can_start(self, text: TextFormat) -> bool:
        is_cut_at_lines = "\n".encode(text.encoding) == b"\n"  # not in UTF-16
        return self._reader_name in LINES and is_cut_at_lines

    def start(self) -> Start:
        """Return copies of the first objects, or of the start of the first, of `START_BYTES` together.

        Raises InputError if an object has changed since the listing.
        """
        folder, sizes = self._new_folder(), dict[Path, int]()
        for number, each in enumerate(self._objects):
            room = START_BYTES - sum(sizes.values())
            if room <= 0:
                break
            path = folder / _file_name(number, each["Key"])
            sizes[path] = each["Size"]
            self._download(each, path, min(room, each["Size"]))
            if room < each["Size"] and not is_packed(path):  # without an incomplete line, unless it is the only one
                os.truncate(path, path.read_bytes().rfind(b"\n") + 1 or room)
        of_all = self._version.size_bytes / sum(sizes.values())
        return Start(
            files=DataFiles(name=self.uri, paths=tuple(sizes)),
            scales={path: of_all * size / path.stat().st_size for path, size in sizes.items()},
            is_cut=sum(sizes.values()) > START_BYTES,
        )

    def with_uris(self, text: str) -> str:
        """Return a message with the URIs in place of the paths of the copies."""
        for path, uri in self._uris.items():
            text = text.replace(path, uri)
        return text

    def renamed(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows. An InputError names the object in place of its copy."""
        try:
            for number, values in rows:
                if isinstance(values, InputError):
                    values.args = (self.with_uris(str(values)),)
                yield number, values
        except InputError as error:
            error.args = (self.with_uris(str(error)),)
            raise

    def close(self) -> None:
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)
            self._copies, self._uris = None, {}


def _file_name(number: int, key: str) -> str:
    """Return the name of a copy. A key may be no name of a file; only its suffixes matter."""
    return f"{number:05}{''.join(PurePosixPath(key).suffixes[-2:])}"


def _data_objects(field: str, location: Location, objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects with data, all of one format. Hidden files and Spark's are left out of a folder."""
    key = location.key
    if key.endswith("/") or not key:
        named = [each for each in objects if each["Key"] != key and not each["Key"][len(key) :].startswith(IGNORED)]
        inner = next((each["Key"] for each in named if "/" in each["Key"][len(key) :]), None)
        if inner is not None:
            raise InputError(f"{field} {location.uri!r} has the folder of {inner!r}: name one folder of data files")
    else:
        named = [each for each in objects if each["Key"] == key]
    if not named:
        hint = "" if key.endswith("/") else "; a folder ends with a slash"
        raise InputError(f"{field} {location.uri!r}: bucket {location.bucket} has no such object{hint}")
    for each in named:
        if each["Size"] == 0:
            raise InputError(f"{field}: s3://{location.bucket}/{each['Key']} is empty")
    try:
        formats = {reader_name(Path(each["Key"])): each["Key"] for each in named}
    except InputError as error:
        raise InputError(f"{field}: {error}") from error
    if len(formats) > 1:
        first, second, *_ = formats.values()
        raise InputError(f"{field}: the objects must have one format, but {first!r} and {second!r} differ")
    return named
