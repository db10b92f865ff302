"""Arrow files of both formats, as pandas and `datasets` write them. Damaged and hostile ones are refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from training.contract.errors import InputError
from training.staging.formats.arrow_messages import uncompressed_bytes
from training.staging.formats.expansion import MIN_LIMIT_BYTES, ROW_BYTES, Expansion
from training.staging.formats.readers import read_rows

COLUMNS = ["label", "text"]
TABLE = pa.table({"text": ["a", "b ü"] * 1_500, "other": list(range(3_000)), "label": [1, 0] * 1_500})


def read(path: Path, columns: list[str] = COLUMNS) -> list[tuple[int, list[Any]]]:
    return list(read_rows(path, columns, Expansion(path)))


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize("compression", ["lz4", "zstd", "uncompressed"])
def test_feather_of_pandas_is_read(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "a.feather"
    TABLE.to_pandas().to_feather(path, compression=compression)
    rows = read(path)
    assert (len(rows), rows[0], rows[-1]) == (3_000, (1, [1, "a"]), (3_000, [0, "b ü"]))


def test_categories_of_pandas_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    pd.DataFrame({"text": ["a", "b", "a"], "label": [1.0, None, 0.0]}).astype({"text": "category"}).to_feather(path)
    assert [text for _, (_, text) in read(path)] == ["a", "b", "a"]


def test_arrow_of_datasets_is_read(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}).save_to_disk(tmp_path / "saved")
    assert read(tmp_path / "saved" / "data-00000-of-00001.arrow") == [(1, [0, "a"]), (2, [1, "b"])]


def test_the_size_of_compressed_buffers_is_known_before_they_are_decompressed(tmp_path: Path) -> None:
    """4,000 texts of 1,000 bytes have 4,000,000 bytes, and 4,001 offsets of 4 bytes."""
    path = tmp_path / "a.feather"
    feather.write_feather(pa.table({"text": ["a" * 1_000] * 4_000}), path, compression="zstd")
    messages = list(pa.ipc.MessageReader.open_stream(path.read_bytes()[8:]))
    sizes = [uncompressed_bytes(message) for message in messages]
    assert sizes == [0, 4_000_000 + 4 * 4_001]
    assert path.stat().st_size < 20_000


def test_a_small_file_with_large_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    texts = pa.array(["ab " * 350_000] * 200)
    feather.write_feather(pa.table({"text": texts, "label": [0] * 200}), path, compression="zstd")
    assert "but contains more than 40 MiB" in refused(path)
    one = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int8()), texts[:1])
    feather.write_feather(pa.table({"text": one, "label": [0] * 200}), path)
    assert "but contains more than 40 MiB" in refused(path)
    rows = MIN_LIMIT_BYTES // ROW_BYTES + 1
    feather.write_feather(pa.table({"text": pa.nulls(rows), "label": pa.nulls(rows)}), path)
    assert "but contains more than 40 MiB" in refused(path)


def test_files_that_cannot_be_read_are_refused_with_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(b"FEA1 and more")
    assert refused(path) == "FILE is Feather of version 1; write it again with pandas' to_feather"
    path.write_bytes(b"no arrow")
    assert refused(path).startswith("FILE is not a valid Arrow file: ")
    feather.write_feather(pa.table({"text": pa.array([["a"]], pa.list_view(pa.string())), "label": [1]}), path)
    assert refused(path).startswith("FILE: column 'text' has the type list_view<")
    feather.write_feather(pa.table({"txt": ["a"], "label": [1]}), path)
    assert refused(path) == "FILE has no column 'text'; it has 'txt', 'label'. Did you mean 'txt'?"


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    path, chosen, outcomes = tmp_path / "a.feather", random.Random(1), [0, 0]
    feather.write_feather(TABLE.slice(0, 50), path)
    content = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        path.write_bytes(damaged)
        try:
            read(path)
            outcomes[0] += 1
        except InputError:
            outcomes[1] += 1
    assert min(outcomes) > 0
