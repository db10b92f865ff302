"""Open the files of a source for their first rows. Of objects in S3, only the start is copied where that suffices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.staging.sources.file_rows import Readers
from training.staging.sources.request import Data
from training.staging.sources.sources import Source, Table, Tables, local_table, stored_table, tables_of
from training.staging.sources.stored_files import Start, StoredFiles

Echo = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class SampleTables:
    """Tables of which only the first rows are to be read."""

    tables: Tables
    starts: tuple[Start, ...]
    """Files of each table."""

    @property
    def is_exact(self) -> bool:
        """False if an error in a row may be due to a copy that ends within it."""
        return all(each.is_exact for each in self.starts)


def open_sample(
    source: Source, columns: Sequence[str], readers: Readers, data: Data, echo: Echo, *, whole: bool = False
) -> SampleTables:
    """Return the tables of a source of files.

    Objects are copied as a whole if their format requires it, or always with `whole`. Before that, `echo` gets their
    number and size. Raises InputError.
    """
    tables, starts = list[Table](), list[Start]()
    for each in source.files:
        if not isinstance(each, StoredFiles):
            starts.append(Start(files=each))
            tables.append(local_table(each, columns, readers, data))
            continue
        if each.can_start(data.text_format) and not whole:
            start = each.start()
        else:
            reason = "a part of them shows too little" if whole else "their format needs all of them"
            echo(f"The plan copies {each.description}: {reason}.")
            start = Start(files=each.copies())
        starts.append(start)
        tables.append(stored_table(each, start.files, columns, readers, data))
    return SampleTables(tables=tables_of(tables), starts=tuple(starts))
