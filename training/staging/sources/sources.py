"""Sources of rows: files here or in S3, the Hub or the demo data. Each has a digest before any row is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from training.contract.errors import InputError
from training.services.sagemaker.s3_location import ANY_ACCOUNT, AccountFields, is_s3
from training.staging.formats.row import Row
from training.staging.sources.data_files import DataFiles, describe_files, digest_files, find_data_files
from training.staging.sources.docstrings import docstring_file
from training.staging.sources.file_rows import NO_READERS, FileRows, Readers
from training.staging.sources.hub import hub_rows, label_names, load_split, resolve_revision
from training.staging.sources.request import Data, HubData
from training.staging.sources.stored_files import StoredFiles


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a row. Its text is built only when a message needs it."""

    table: Table
    number: int

    def __str__(self) -> str:
        """Return a text such as `a.csv line 3`."""
        return self.table.location(self.number)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one file or split, read lazily."""

    name: str
    """File or Hub split, for messages."""
    unit: str = "row"
    """Unit of the row numbers: `line`, `row` or `question`."""
    rows: Iterator[Row]
    """Values of the requested columns of each row. Can be iterated over once."""
    locate: Callable[[int], str] | None = None
    """Return the location of a row by its number; None: the name, the unit and the number."""

    def location(self, number: int) -> str:
        """Return the location of a row for messages, such as `a.csv line 3`."""
        if self.locate is not None:
            return self.locate(number)
        return f"{self.name} {self.unit} {number}"


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of one source."""

    train: Table
    """Rows to train on."""
    validation: Table | None
    """Rows to evaluate on; None sets part of `train` aside."""
    label_names: tuple[str, ...] | None = None
    """Label names that the source itself defines."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Data with its digest."""

    description: str
    """Origin of the data, for people."""
    digest: str
    """SHA-256 of the content; for a Hub data set, of its name, commit and splits; in S3, of keys, sizes and ETags."""
    validation_digest: str
    """Digest of the file or split that contains the validation rows, also if they are split off the training rows."""
    open: Callable[[], Tables]
    """Open the data for one pass over its rows. It can be opened again for each further pass."""
    close: Callable[[], None] = lambda: None
    """Delete what opening it has copied to this machine."""
    files: tuple[DataFiles | StoredFiles, ...] = ()
    """Files of `train`, and of `validation` if it has its own. Other sources have none."""


def find_source(
    data: Data,
    columns: Sequence[str],
    cache: Path,
    readers: Readers = NO_READERS,
    account: AccountFields = ANY_ACCOUNT,
) -> Source:
    """Return the source of the data. Its rows contain the values of `columns`.

    Generated data is written to the folder `cache`, and copies of objects in S3 to the folder `staged` beside it, where
    they stay until the source is closed; `account` reads them. Raises InputError for a missing file.
    """
    if data.hub is not None:
        return _hub_source(data.hub, columns, data.columns.label)
    if data.builtin is not None:
        demo = [find_data_files(str(docstring_file(cache)))]
        return _file_source(demo, columns, readers, data, "docstrings of installed packages")
    copies = cache.parent / "staged"
    files = [
        StoredFiles(field, name, copies, account) if is_s3(name) else _files_of(field, name)
        for field, name in _names(data).items()
    ]
    description = ", ".join(
        each.description if isinstance(each, StoredFiles) else describe_files(each, columns, data.text_format)
        for each in files
    )
    return _file_source(files, columns, readers, data, description)


def find_files(data: Data) -> dict[str, DataFiles]:
    """Return the files of `train` and of `validation` by field. Raises InputError for a missing file."""
    return {field: _files_of(field, name) for field, name in _names(data).items()}


def _names(data: Data) -> dict[str, str]:
    fields = {"data.train": data.train, "data.validation": data.validation}
    return {field: name for field, name in fields.items() if name is not None}


def is_in_s3(data: Data) -> bool:
    """Return whether some of the data is in S3."""
    return any(map(is_s3, _names(data).values()))


def _files_of(field: str, name: str) -> DataFiles:
    try:
        return find_data_files(name)
    except InputError as error:
        raise InputError(f"{field}: {error}") from error


def _file_source(
    files: Sequence[DataFiles | StoredFiles], columns: Sequence[str], readers: Readers, data: Data, description: str
) -> Source:
    text = data.text_format
    parts = [each.digest(text) if isinstance(each, StoredFiles) else digest_files(each, text) for each in files]

    def open_files() -> Tables:
        return tables_of([_file_table(each, columns, readers, data) for each in files])

    def close() -> None:
        for each in files:
            if isinstance(each, StoredFiles):
                each.close()

    return Source(
        description=description,
        digest=_sha256("\n".join(parts)),
        validation_digest=_sha256(parts[-1]),
        open=open_files,
        close=close,
        files=tuple(files),
    )


def tables_of(tables: Sequence[Table]) -> Tables:
    """Return the tables of `train` and, if it has its own, of `validation`."""
    return Tables(train=tables[0], validation=tables[1] if len(tables) > 1 else None)


def _file_table(files: DataFiles | StoredFiles, columns: Sequence[str], readers: Readers, data: Data) -> Table:
    if isinstance(files, StoredFiles):
        return stored_table(files, files.copies(), columns, readers, data)
    return local_table(files, columns, readers, data)


def stored_table(stored: StoredFiles, copies: DataFiles, columns: Sequence[str], readers: Readers, data: Data) -> Table:
    """Return the rows of copies of objects. Messages name the objects."""
    table = local_table(copies, columns, readers, data)
    return Table(
        name=table.name,
        rows=stored.renamed(table.rows),
        locate=lambda number: stored.with_uris(table.location(number)),
    )


def local_table(files: DataFiles, columns: Sequence[str], readers: Readers, data: Data) -> Table:
    """Return the rows of files on this machine."""
    rows = FileRows(files, columns, data.text_format, readers, max_expansion=data.max_expansion)
    return Table(name=files.name, rows=rows, locate=rows.location)


def _hub_source(hub: HubData, columns: Sequence[str], label: str) -> Source:
    revision = resolve_revision(hub)
    description = f"Hub {hub.name}" + (f" ({hub.config})" if hub.config else "") + f" at {revision}"

    # Staging reads the rows more than once. A loaded split is mapped from files, not kept in memory.
    load = cache(lambda split: load_split(hub, split, revision))

    def open_hub() -> Tables:
        train = load(hub.splits.train)
        names = label_names(train, label)
        validation = None
        if hub.splits.validation is not None:
            validation = _hub_table(load(hub.splits.validation), hub.splits.validation)
        return Tables(train=_hub_table(train, hub.splits.train), validation=validation, label_names=names)

    def _hub_table(dataset: object, split: str) -> Table:
        name = f"{hub.name} split {split}"
        return Table(name=name, unit="row", rows=hub_rows(dataset, name, columns))

    identity = [hub.name, hub.config, revision, hub.splits.train, hub.splits.validation]
    validation = [*identity[:3], hub.splits.validation or hub.splits.train]
    return Source(
        description=description,
        digest=_sha256(repr(identity)),
        validation_digest=_sha256(repr(validation)),
        open=open_hub,
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
