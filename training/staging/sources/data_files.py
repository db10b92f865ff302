"""Files of one source of rows: a file, all files of a folder, or those of a pattern. They are read in order."""

from __future__ import annotations

import glob
import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

from state.regular_files import user_path
from training.contract.errors import InputError
from training.staging.formats.files import MissingColumn, Row, check_file, digest_file
from training.staging.formats.readers import BINARY, read_rows, reader_name, unit_of
from training.staging.formats.tables import delimiter_name, is_table, is_usual, table_delimiter
from training.staging.formats.text import UTF8, TextFormat

MAX_FILES = 10_000
LISTED = 5
IGNORED = (".", "_")
"""Beginnings of file names that are no data: hidden files, and those that Spark writes beside the data."""


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
    _check_same_format(path, paths)
    return DataFiles(name=str(path), paths=tuple(paths))


def _files_of_folder(folder: Path) -> list[Path]:
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
        raise InputError(f"{path} matches no file; the folder {folder} has {_listed(names)}")
    return paths


def _data(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if not path.name.startswith(IGNORED))


def _limited(path: Path, verb: str, paths: Iterable[Path]) -> list[Path]:
    limited = list(islice(paths, MAX_FILES + 1))
    if len(limited) > MAX_FILES:
        raise InputError(f"{path} {verb} more than {MAX_FILES:,} files; join them into fewer")
    return sorted(limited)


def _check_same_format(path: Path, paths: Sequence[Path]) -> None:
    formats = {reader_name(each): each.name for each in paths} if len(paths) > 1 else {}
    if len(formats) > 1:
        listed = " and ".join(f"{name!r}" for name in list(formats.values())[:2])
        raise InputError(
            f"the files of {path} must have one format, but {listed} differ; use a pattern, such as '*.csv'"
        )


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(repr(name[:60]) for name in names[:LISTED])
    return (listed or "no files") + (" ..." if len(names) > LISTED else "")


def digest_files(files: DataFiles, text: TextFormat) -> str:
    """Return text that identifies the rows of the files by their contents and order, not by their names.

    It includes the suffix, because the same bytes give different rows as .csv and as .tsv.
    """
    identity = "" if files.reader_name in BINARY else text.identity
    parts = [f"{reader_name(path)} {path.suffix} {digest_file(path)}{identity}" for path in files.paths]
    if len(parts) == 1:
        return parts[0]
    return f"{len(parts)} files {hashlib.sha256(chr(10).join(parts).encode()).hexdigest()}"


def describe_files(files: DataFiles, columns: Sequence[str], text: TextFormat) -> str:
    """Return the files with what their names do not show: their number, encoding and delimiter."""
    details = [f"{len(files.paths):,} files"] if len(files.paths) > 1 else []
    if files.reader_name not in BINARY and text.encoding != UTF8:
        details.append(text.encoding)
    path = files.paths[0]
    with suppress(InputError):  # Reading the rows reports it, with its place.
        if is_table(path) and not is_usual(path, delimiter := table_delimiter(path, columns, text)):
            details.append(f"delimiter {delimiter_name(delimiter)}")
    return files.name + (f" ({', '.join(details)})" if details else "")


class FileRows:
    """Rows of files. Can be iterated over once. One file is open at a time.

    The numbers of the rows go on from file to file: those of the second follow the last row of the first.
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
            is_next_table = path != self._files.paths[0] and is_table(path)
            read = self._next_table(path) if is_next_table else read_rows(path, self._columns, self._text)
            for number, values in read:
                last = start + number
                yield last, values

    def _next_table(self, path: Path) -> Iterator[Row]:
        """Yield the rows of a table with the delimiter of the first, and a header of its own."""
        delimiter = table_delimiter(self._files.paths[0], self._columns, self._text)
        try:
            yield from read_rows(path, self._columns, replace(self._text, delimiter=delimiter))
        except MissingColumn as error:
            raise InputError(
                f"{error} Each file needs the header. If `split` made the files, only the first has it: join them "
                "with `cat`"
            ) from error
