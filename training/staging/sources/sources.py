"""Sources of rows: files, the Hub or the demo data. Each has a digest that is known before any row is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from training.contract.errors import InputError
from training.staging.sources.docstrings import docstring_file
from training.staging.sources.expansion import Expansion
from training.staging.sources.files import check_file, digest_file
from training.staging.sources.hub import hub_rows, label_names, load_split, resolve_revision
from training.staging.sources.readers import read_rows, reader_name, unit_of
from training.staging.sources.request import Data, HubData
from training.staging.sources.row import Row


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one file or split, read lazily."""

    name: str
    """File or Hub split, for messages."""
    unit: str
    """Unit of the row numbers: `line`, `row` or `question`."""
    rows: Iterator[Row]
    """Values of the requested columns of each row. Can be iterated over once."""

    def location(self, number: int) -> str:
        """Return the location of a row for messages, such as `a.csv line 3`."""
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
    """SHA-256 of the content; for a Hub data set, of its name, commit and splits."""
    validation_digest: str
    """Digest of the file or split that contains the validation rows, also if they are split off the training rows."""
    open: Callable[[], Tables]
    """Open the data for one pass over its rows. It can be opened again for each further pass."""


Readers = Mapping[str, tuple[str, Callable[[Path, Expansion], Iterator[Row]]]]
"""Readers of a task's own file formats: suffix to (unit of the row numbers, reader)."""
NO_READERS: Readers = {}


def find_source(data: Data, columns: Sequence[str], cache: Path, readers: Readers = NO_READERS) -> Source:
    """Return the source of the data. Its rows contain the values of `columns`.

    Generated data is written to the folder `cache`. Raises InputError for a missing file.
    """
    if data.hub is not None:
        return _hub_source(data.hub, columns, data.columns.label)
    if data.builtin is not None:
        paths, description = [docstring_file(cache)], "docstrings of installed packages"
        return _file_source(paths, columns, readers, data.max_expansion, description)
    assert data.train is not None, "Data has exactly one source"
    fields = {"data.train": data.train, "data.validation": data.validation}
    paths = [_checked(field, Path(name).expanduser()) for field, name in fields.items() if name is not None]
    description = ", ".join(str(path) for path in paths)
    return _file_source(paths, columns, readers, data.max_expansion, description)


def _checked(field: str, path: Path) -> Path:
    try:
        check_file(path)
    except InputError as error:
        raise InputError(f"{field}: {error}") from error
    return path


def _file_source(
    paths: list[Path], columns: Sequence[str], readers: Readers, max_expansion: float, description: str
) -> Source:
    # The digest includes the suffix, because the same bytes give different rows as .csv and as .tsv.
    parts = [f"{reader_name(path)} {path.suffix} {digest_file(path)}" for path in paths]

    def open_files() -> Tables:
        tables = [_file_table(path, columns, readers, Expansion(path, max_expansion)) for path in paths]
        return Tables(train=tables[0], validation=tables[1] if len(tables) > 1 else None)

    return Source(
        description=description,
        digest=_sha256("\n".join(parts)),
        validation_digest=_sha256(parts[-1]),
        open=open_files,
    )


def _file_table(path: Path, columns: Sequence[str], readers: Readers, expansion: Expansion) -> Table:
    if reader_name(path) in readers:
        unit, read = readers[reader_name(path)]
        return Table(name=str(path), unit=unit, rows=read(path, expansion))
    return Table(name=str(path), unit=unit_of(path), rows=read_rows(path, columns, expansion))


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
