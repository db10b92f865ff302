"""Sources of rows: files here or in S3, the Hub or the demo data. Each has a digest before any row is read."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from state.digests import digest
from state.folders import is_usable, record
from training.contract.errors import InputError, first_line
from training.contract.s3_location import ANY_ACCOUNT, AccountFields, is_s3
from training.staging.formats.files import Row, missing_column
from training.staging.formats.readers import file_features
from training.staging.sources.data_files import (
    DATASET_STATE,
    DataFiles,
    FileRows,
    StoredFiles,
    check_is_no_dict,
    find_data_files,
)
from training.staging.sources.request import Data, HubData

LOOK_UP_SECONDS = 10.0
DEMO_VERSION = 1
PACKAGES: dict[str, tuple[str, ...]] = {
    "matplotlib": ("matplotlib", "pyplot", "mpl"),
    "networkx": ("networkx", "nx"),
    "numpy": ("numpy", "np"),
    "pandas": ("pandas", "pd"),
    "scikit-learn": ("scikit-learn", "sklearn"),
    "scipy": ("scipy",),
    "sqlalchemy": ("sqlalchemy", "sa"),
    "sympy": ("sympy",),
    "torch": ("pytorch", "torch"),
    "transformers": ("transformers", "hugging face", "huggingface"),
}
"""Distributions, each with its names, which are masked in its docstrings."""
MODULES = {"scikit-learn": "sklearn"}
TEXTS_PER_PACKAGE = 210
TEXTS_PER_FILE = 6
SHORTEST_CHARACTERS = 40
LONGEST_CHARACTERS = 400
MASK = "PACKAGE"
NO_DATA = frozenset({"tests", "test", "testing", "_vendor", "externals"})


@dataclass(frozen=True, kw_only=True)
class Source:
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


@dataclass(frozen=True, kw_only=True)
class Tables:
    train: Table
    validation: Table | None
    """Rows to evaluate on; None sets part of `train` aside."""
    label_names: tuple[str, ...] | None = None
    """Label names that the source itself defines."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one file or split, read lazily."""

    name: str
    """File or Hub split, for messages."""
    rows: Iterator[Row]
    """Values of the requested columns of each row. Can be iterated over once."""
    location: Callable[[int], str]
    """Return the location of a row by its number, for messages, such as `a.csv line 3`."""


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a row. Its text is built only when a message needs it."""

    table: Table
    number: int

    def __str__(self) -> str:
        """Return a text such as `a.csv line 3`."""
        return self.table.location(self.number)


def find_source(data: Data, columns: Sequence[str], cache: Path, account: AccountFields = ANY_ACCOUNT) -> Source:
    """Return the source of the data. Its rows contain the values of `columns`.

    Generated data is written to the folder `cache`, and copies of objects in S3 to its sibling `staged`, where they
    stay until the source is closed; `account` reads them. Raises InputError for a missing file.
    """
    if data.hub is not None:
        return _hub_source(data.hub, columns)
    if data.builtin is not None:
        demo = [find_data_files(str(docstring_file(cache)))]
        return _file_source(demo, columns, data, "docstrings of installed packages")
    copies, names = cache.parent / "staged", {"data.train": data.train, "data.validation": data.validation}
    files = [
        StoredFiles(field, name, copies, account) if is_s3(name) else _files_of(field, name)
        for field, name in names.items()
        if name is not None
    ]
    description = ", ".join(each.described(columns, data.text_format) for each in files)
    return _file_source(files, columns, data, description)


def _files_of(field: str, name: str) -> DataFiles:
    try:
        return find_data_files(name)
    except InputError as error:
        raise InputError(f"{field}: {error}") from error


def _file_source(
    files: Sequence[DataFiles | StoredFiles], columns: Sequence[str], data: Data, description: str
) -> Source:
    text = data.text_format
    parts = [each.digest(text) for each in files]

    def open_files() -> Tables:
        first = files[0] if isinstance(files[0], DataFiles) else files[0].copies()
        names = _names_of(file_features(first.paths[0]), columns)
        return replace(tables_of([file_table(each, columns, data) for each in files]), label_names=names)

    def close() -> None:
        for each in files:
            each.close()

    return Source(
        description=description,
        digest=digest("\n".join(parts)),
        validation_digest=digest(parts[-1]),
        open=open_files,
        close=close,
        files=tuple(files),
    )


def tables_of(tables: Sequence[Table]) -> Tables:
    """Return the tables of `train` and, if it has its own, of `validation`."""
    return Tables(train=tables[0], validation=tables[1] if len(tables) > 1 else None)


def file_table(
    files: DataFiles | StoredFiles, columns: Sequence[str], data: Data, copies: DataFiles | None = None
) -> Table:
    """Return the rows of files. Objects in S3 are read from `copies`, by default of all, and named in messages."""
    if isinstance(files, DataFiles):
        rows = FileRows(files, columns, data.text_format)
        return Table(name=files.name, rows=rows, location=rows.location)
    rows = FileRows(copies or files.copies(), columns, data.text_format)
    return Table(
        name=files.uri, rows=files.renamed(rows), location=lambda number: files.with_uris(rows.location(number))
    )


def _hub_source(hub: HubData, columns: Sequence[str]) -> Source:
    revision = _resolve_revision(hub)
    description = f"Hub {hub.name}" + (f" ({hub.config})" if hub.config else "") + f" at {revision}"

    # Staging reads the rows more than once. A loaded split is mapped from files, not kept in memory.
    load = cache(lambda split: _with_paths(_load_split(hub, split, revision), columns))

    def open_hub() -> Tables:
        names = _names_of(load(hub.splits.train).features, columns)
        splits = filter(None, (hub.splits.train, hub.splits.validation))
        tables = tables_of([_hub_table(hub, split, load(split), columns) for split in splits])
        return replace(tables, label_names=names)

    identity = [hub.name, hub.config, revision, hub.splits.train, hub.splits.validation]
    validation = [*identity[:3], hub.splits.validation or hub.splits.train]
    return Source(
        description=description,
        digest=digest(repr(identity)),
        validation_digest=digest(repr(validation)),
        open=open_hub,
    )


def _with_paths(dataset: Any, columns: Sequence[str]) -> Any:
    """Return a data set with columns for the fields of its objects, if dotted paths name them."""
    return dataset if set(columns) <= set(dataset.column_names) else dataset.flatten()


def _names_of(features: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the label names that the types of these columns have; None if they have none."""
    return next(filter(None, (label_names(features[column]) for column in columns if column in features)), None)


def label_names(feature: Any) -> tuple[str, ...]:
    """Return the names of a column of class numbers, or of lists of them; empty for any other column."""
    return tuple(getattr(getattr(feature, "feature", feature), "names", ()))


def _resolve_revision(hub: HubData) -> str:
    """Return the current commit of the revision, or the revision itself if the Hub cannot be reached.

    The commit ensures that data which has changed on the Hub is staged again.
    """
    revision = hub.revision or "main"
    if Path(hub.name).is_dir() or is_offline():
        return revision
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(hub.name, revision=revision, timeout=LOOK_UP_SECONDS).sha or revision
    except Exception:  # The errors of the transport (httpx) differ between releases.
        return revision  # A cached copy may exist. If not, loading raises an error with the reason.


def is_offline() -> bool:
    """Return whether the environment forbids calls to the Hub."""
    return os.environ.get("HF_HUB_OFFLINE", "0").lower() in {"1", "true", "yes", "on"}


def _load_split(hub: HubData, split: str, revision: str) -> Any:
    """Return a split as a `datasets.Dataset`. Every error becomes an `InputError`."""
    import datasets

    folder = Path(hub.name)
    check_is_no_dict(folder)
    if (folder / DATASET_STATE).is_file():
        raise InputError(f"data.hub {hub.name!r} was written by save_to_disk: set data.train to it")
    datasets.disable_progress_bars()
    try:
        pinned = None if folder.is_dir() else revision
        return datasets.load_dataset(hub.name, hub.config, split=split, revision=pinned)
    # The library raises about twenty classes: no network, unknown name, no access, unknown split, broken data.
    except Exception as error:
        raise InputError(f"data.hub {hub.name!r}, split {split!r} cannot be loaded: {first_line(error)}") from error


def _hub_table(hub: HubData, split: str, dataset: Any, columns: Sequence[str]) -> Table:
    name = f"{hub.name} split {split}"
    for column in columns:
        if column not in dataset.column_names:
            raise missing_column(name, column, dataset.column_names)
    rows = enumerate(dataset.select_columns(list(columns)), start=1)
    values = ((number, [row[column] for column in columns]) for number, row in rows)
    return Table(name=name, rows=values, location=lambda number: f"{name} row {number}")


def docstring_file(folder: Path) -> Path:
    """Return the demo data: a JSON Lines file of {text, label} under `folder`, written once for the installed versions.

    It needs no network and no licence: docstrings of installed packages, labelled by package. They are read from the
    packages' source files with `ast`, without importing them.
    """
    installed = [name for name in PACKAGES if importlib.util.find_spec(MODULES.get(name, name)) is not None]
    if len(installed) < 2:
        raise InputError(f"data.builtin docstrings requires at least two of these packages: {', '.join(PACKAGES)}")
    versions = {name: importlib.metadata.version(name) for name in installed}
    settings = [DEMO_VERSION, TEXTS_PER_PACKAGE, TEXTS_PER_FILE, SHORTEST_CHARACTERS, LONGEST_CHARACTERS, versions]
    key = digest(json.dumps(settings), 16)
    path = folder / f"docstrings-{key}.jsonl"
    if not is_usable(path):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{path.name}.{os.getpid()}"
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in docstring_rows(list(versions))), "utf-8")
        unfinished.replace(path)
        record(path)
    return path


def docstring_rows(packages: Sequence[str]) -> list[dict[str, str]]:
    """Return equally many texts of each package. The packages alternate, so any first n rows are balanced too.

    Texts that occur in several packages are left out.
    """
    texts = {package: list(islice(_package_texts(package), TEXTS_PER_PACKAGE)) for package in packages}
    packages_of = Counter(text for own in texts.values() for text in own)
    unique = {package: [text for text in own if packages_of[text] == 1] for package, own in texts.items()}
    fewest = min(map(len, unique.values()))
    return [{"text": unique[package][at], "label": package} for at in range(fewest) for package in packages]


def _package_texts(package: str) -> Iterator[str]:
    """Yield the distinct masked docstrings of a package, without its tests.

    Files are ordered by a hash of their path, which mixes the modules.
    """
    spec = importlib.util.find_spec(MODULES.get(package, package))
    assert spec is not None, "the package is installed"
    assert spec.submodule_search_locations, "a package, not a module of one file"
    root = Path(spec.submodule_search_locations[0])
    paths = [path for path in root.rglob("*.py") if NO_DATA.isdisjoint(path.relative_to(root).parts)]
    names = "|".join(re.escape(name) for name in PACKAGES[package])
    own_name = re.compile(rf"(?<![A-Za-z])({names})(?![A-Za-z])", re.IGNORECASE)
    yielded: set[str] = set()
    for path in sorted(paths, key=lambda each: digest(each.relative_to(root).as_posix())):
        for text in islice(_file_texts(path), TEXTS_PER_FILE):
            masked = own_name.sub(MASK, text)
            if masked not in yielded:
                yielded.add(masked)
                yield masked


def _file_texts(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return  # A template, or a file for a different version of Python.
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            text = " ".join((ast.get_docstring(node) or "")[: 4 * LONGEST_CHARACTERS].split())
            if len(text) > LONGEST_CHARACTERS:  # cut between words
                text = text[:LONGEST_CHARACTERS].rsplit(" ", 1)[0]
            if len(text) >= SHORTEST_CHARACTERS:
                yield text
