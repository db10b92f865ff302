"""Rows of one or more files, one file after the other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from training.contract.errors import InputError
from training.staging.formats.expansion import DEFAULT_MAX_EXPANSION, Expansion
from training.staging.formats.readers import read_rows, unit_of
from training.staging.formats.row import MissingColumn, Row
from training.staging.formats.tables import is_table, table_delimiter
from training.staging.formats.text_format import TextFormat
from training.staging.sources.data_files import DataFiles

Readers = Mapping[str, tuple[str, Callable[[Path, Expansion, TextFormat], Iterator[Row]]]]
"""Readers of a task's own file formats: suffix to (unit of the row numbers, reader)."""
NO_READERS: Readers = {}


class FileRows:
    """Rows of files. Can be iterated over once. One file is open at a time.

    The numbers of the rows go on from file to file: those of the second follow the last row of the first.
    """

    def __init__(
        self,
        files: DataFiles,
        columns: Sequence[str],
        text: TextFormat,
        readers: Readers = NO_READERS,
        *,
        max_expansion: float = DEFAULT_MAX_EXPANSION,
        keeps_rows: bool = True,
    ) -> None:
        self._files, self._columns, self._text, self._readers = files, columns, text, readers
        self._max_expansion, self._keeps_rows = max_expansion, keeps_rows
        self._starts: list[int] = []
        self._units: dict[Path, str] = {}
        self._rows = self._read()

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def __next__(self) -> Row:
        return next(self._rows)

    def location(self, number: int) -> str:
        """Return the location of a row that was read, such as `a.csv line 3`."""
        at = max(bisect_left(self._starts, number) - 1, 0)
        path, start = self._files.paths[at], self._starts[at] if self._starts else 0
        return f"{path} {self._unit(path)} {number - start}"

    def _unit(self, path: Path) -> str:
        if path not in self._units:
            own = self._readers.get(self._files.reader_name)
            self._units[path] = own[0] if own else unit_of(path, self._text)
        return self._units[path]

    def _read(self) -> Iterator[Row]:
        last = 0
        for path in self._files.paths:
            start = last
            self._starts.append(start)
            for number, values in self._rows_of(path):
                last = start + number
                yield last, values

    def _rows_of(self, path: Path) -> Iterator[Row]:
        expansion = Expansion(path, self._max_expansion, keeps_rows=self._keeps_rows)
        if self._files.reader_name in self._readers:
            _, read = self._readers[self._files.reader_name]
            return read(path, expansion, self._text)
        if path == self._files.paths[0] or not is_table(path):
            return read_rows(path, self._columns, expansion, self._text)
        return self._next_table(path, expansion)

    def _next_table(self, path: Path, expansion: Expansion) -> Iterator[Row]:
        """Yield the rows of a table with the delimiter of the first, and a header of its own."""
        delimiter = table_delimiter(self._files.paths[0], self._columns, self._text)
        try:
            yield from read_rows(path, self._columns, expansion, replace(self._text, delimiter=delimiter))
        except MissingColumn as error:
            raise InputError(
                f"{error} Each file needs the header. If `split` made the files, only the first has it: join them "
                "with `cat`"
            ) from error
