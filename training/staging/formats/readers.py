"""Readers of data files by suffix, which yield numbered rows one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from training.contract.errors import InputError
from training.job.tasks import SQUAD_COLUMNS
from training.staging.formats.columnar import columnar_rows
from training.staging.formats.files import COMPRESSIONS, Row, plain_suffix
from training.staging.formats.json_rows import is_json_array, json_rows, line_rows, squad_rows
from training.staging.formats.tables import table_rows
from training.staging.formats.text import DEFAULT_FORMAT, TextFormat, text_lines

PANDAS = 'python -c "import pandas; pandas.{reader}({name!r}).{writer}"'
WAYS_ON = {
    **dict.fromkeys(
        (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"),
        "save the sheet as CSV, or convert it: "
        + PANDAS.replace("{reader}", "read_excel").replace("{writer}", "to_csv('data.csv', index=False)"),
    ),
    **dict.fromkeys(
        (".pkl", ".pickle"),
        "a pickle can run any code, so convert it: "
        + PANDAS.replace("{reader}", "read_pickle").replace("{writer}", "to_parquet('data.parquet')"),
    ),
    ".orc": "convert it: " + PANDAS.replace("{reader}", "read_orc").replace("{writer}", "to_parquet('data.parquet')"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), "unpack it"),
    **dict.fromkeys((".xz", ".lz4", ".br", ".sz"), f"decompress it, or use {', '.join(COMPRESSIONS)}"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "export the table as CSV"),
}
"""Advice for files that are not read, by suffix."""


def read_rows(path: Path, columns: Sequence[str], text: TextFormat = DEFAULT_FORMAT) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order. The file's suffix determines the reader."""
    if _is_squad(path, columns):
        return squad_rows(path, text)
    return READERS[reader_name(path)](path, columns, text)


def _is_squad(path: Path, columns: Sequence[str]) -> bool:
    return reader_name(path) == ".json" and tuple(columns) == SQUAD_COLUMNS


def reader_name(path: Path) -> str:
    """Return the suffix that determines the reader, without that of a compression."""
    suffix = plain_suffix(path)
    if suffix in WAYS_ON:
        raise InputError(f"{path} cannot be read: {WAYS_ON[suffix].format(name=path.name)}")
    if suffix not in READERS:
        known, packed = ", ".join(READERS), " or ".join(COMPRESSIONS)
        raise InputError(f"{path} has the unknown suffix {suffix!r}; use {known}, optionally followed by {packed}")
    return suffix


def unit_of(path: Path, columns: Sequence[str], text: TextFormat = DEFAULT_FORMAT) -> str:
    """Return the unit of the row numbers of this file: `line`, `row` or `question`. A file .json is opened for it."""
    name = reader_name(path)
    if _is_squad(path, columns):
        return "question"
    is_array = name == ".json" and is_json_array(path, text)
    return "row" if name in BINARY or is_array else "line"


def _plain_text(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield each line that is not blank. The line end is kept to separate the lines when texts are joined."""
    if len(columns) != 1:
        listed = " and ".join(repr(column) for column in columns)
        raise InputError(
            f"{path} is plain text, which has one text per line; the columns {listed} need JSON Lines, CSV or TSV. "
            "Name a table .csv or .tsv"
        )
    for number, line in text_lines(path, text):
        if line.strip():
            yield number, [line.rstrip("\r\n") + "\n"]


READERS: dict[str, Callable[[Path, Sequence[str], TextFormat], Iterator[Row]]] = {
    ".jsonl": line_rows,
    ".ndjson": line_rows,
    ".json": json_rows,
    ".csv": table_rows,
    ".tsv": table_rows,
    ".parquet": columnar_rows,
    ".arrow": columnar_rows,
    ".feather": columnar_rows,
    ".ipc": columnar_rows,
    ".txt": _plain_text,
}
BINARY = frozenset({".parquet", ".arrow", ".feather", ".ipc"})
"""Formats that are not text."""
