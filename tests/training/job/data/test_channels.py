"""Channels are read as they were written. Errors name the file and the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.job.data.channels import Channel, check_tokens
from training.job.data.channels import read_channel as read_any
from training.job.processes.reporting import BadData
from training.job.tasks import TASKS

IDS = [[5, 6, 7], [8], [9, 10]]
Writer = Callable[..., None]


def read_channel(folder: Path) -> Channel:
    return read_any(folder, "classification", TASKS["classification"].integer_columns)


def test_rows_are_read_as_written(tmp_path: Path, channel_writer: Writer) -> None:
    channel_writer(tmp_path, IDS, [0, 1, 0], types=[[0, 0, 1], [0], [0, 1]])
    rows = read_channel(tmp_path).rows
    assert [rows[at]["input_ids"].tolist() for at in range(3)] == IDS
    assert rows[2]["token_type_ids"].tolist() == [0, 1]
    assert [int(rows[at]["label"]) for at in range(3)] == [0, 1, 0]
    assert rows.lengths.tolist() == [3, 1, 2]
    by_length = rows.sorted_by_length()
    assert [by_length[at]["input_ids"].tolist() for at in range(3)] == [[8], [9, 10], [5, 6, 7]]
    assert by_length.columns["label"].tolist() == [1, 0, 0]
    check_tokens(rows, 11, tmp_path)
    with pytest.raises(BadData, match="contains token 10, but the model has 10 tokens"):
        check_tokens(rows, 10, tmp_path)


def test_a_list_of_integers_belongs_to_its_row(tmp_path: Path, channel_writer: Writer) -> None:
    channel_writer(tmp_path, IDS, [0, 1, 0])
    ids, tags = (pa.array(values, pa.list_(pa.int32())) for values in (IDS, [[3], [4, 5], []]))
    pq.write_table(pa.table({"input_ids": ids, "tags": tags}), tmp_path / "data.parquet")
    rows = read_any(tmp_path, "classification", (), ("tags",)).rows
    assert [rows[at]["tags"].tolist() for at in range(3)] == [[3], [4, 5], []]
    by_length = rows.sorted_by_length()
    assert [by_length[at]["tags"].tolist() for at in range(3)] == [[4, 5], [], [3]]


def test_shards_have_the_rows_of_the_channel(tmp_path: Path, channel_writer: Writer) -> None:
    channel_writer(tmp_path, IDS, [0, 1, 0])
    (tmp_path / "data.parquet").rename(tmp_path / "data-00000.parquet")
    (tmp_path / "data-00001.parquet").write_bytes((tmp_path / "data-00000.parquet").read_bytes())
    with pytest.raises(BadData, match=r"has 6 rows, but rows in channel.json is 3"):
        read_channel(tmp_path)


def write_table(folder: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), folder / "data.parquet")


def write_metadata(folder: Path, **changes: Any) -> None:
    metadata = json.loads((folder / "channel.json").read_text()) | changes
    known = {name: value for name, value in metadata.items() if value is not ...}
    (folder / "channel.json").write_text(json.dumps(known))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "data.parquet").unlink(), "data.parquet is missing"),
        (lambda f: (f / "channel.json").unlink(), "channel.json cannot be read: FileNotFoundError"),
        (lambda f: write_metadata(f, max_length=...), "channel.json cannot be read: KeyError: 'max_length'"),
        (lambda f: (f / "data.parquet").write_bytes(b"PAR1 torn"), "cannot be read as Parquet"),
        (lambda f: write_table(f, label=[0]), "has no column 'input_ids'; it has 'label'"),
        (lambda f: write_table(f, input_ids=[[1, None]], label=[0]), "must contain whole numbers"),
        (lambda f: write_table(f, input_ids=[[1]], label=["0"]), "has type string; it must contain whole numbers"),
    ],
)
def test_bad_data_names_the_file_and_the_reason(
    tmp_path: Path, channel_writer: Writer, damage: Callable[[Path], Any], message: str
) -> None:
    channel_writer(tmp_path, IDS, [0, 1, 0])
    damage(tmp_path)
    with pytest.raises(BadData) as caught:
        read_channel(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
