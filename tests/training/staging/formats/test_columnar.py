"""Limits on memory and time for Parquet and Arrow files. `tests.support.corpus` has files of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from training.contract.errors import InputError
from training.staging.formats import columnar
from training.staging.formats.readers import read_rows

COLUMNS = ["label", "text"]
TABLE = pa.table({"text": ["a", "b ü"] * 1_500, "other": list(range(3_000)), "label": [1, 0] * 1_500})
LARGE = "ab " * 350_000
"""A text of 1 MB."""


@pytest.fixture(autouse=True)
def _own_process() -> None:
    columnar._stop_idle()


def read(path: Path, columns: list[str] = COLUMNS) -> list[tuple[int, list[Any]]]:
    return list(read_rows(path, columns))


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value).replace(str(path), "FILE")


def test_a_file_that_needs_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "MAX_MEMORY_BYTES", 300 * 2**20)
    path, parquet = tmp_path / "a.feather", tmp_path / "a.parquet"
    table = pa.table({"text": [LARGE] * 300, "label": [0] * 300})
    feather.write_feather(table, path, compression="zstd")
    assert refused(path) == (
        "FILE needs more than 300 MiB of memory; if it is not damaged, write it with smaller record batches, or as "
        "JSON Lines"
    )
    pq.write_table(table, parquet, use_dictionary=False, compression="zstd", data_page_size=2**30)
    assert "needs more than 300 MiB of memory" in refused(parquet)


def test_a_file_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "MAX_SECONDS", 0.01)
    path = tmp_path / "a.feather"
    feather.write_feather(TABLE, path)
    assert refused(path).startswith("FILE takes more than 0.01 s to read 100 rows; if it is not damaged, write it ")


def test_a_process_that_ends_is_an_error_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.concat_tables([TABLE] * 20), path)  # more than fits into a pipe
    rows = read_rows(path, COLUMNS)
    assert next(rows) == (1, [1, "a"])
    (process,) = columnar._busy
    list(rows)
    rows = read_rows(path, COLUMNS)
    assert next(rows) == (1, [1, "a"])
    assert columnar._busy == {process}, "files are read by the same process"
    process.kill()
    with pytest.raises(
        InputError, match=r"cannot be read: it ended the process that reads it \(exit code -9\); if it is not damaged"
    ):
        list(rows)
    assert len(read(path)) == 60_000
