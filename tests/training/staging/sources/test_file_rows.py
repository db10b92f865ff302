"""Rows of several files: one after the other, each with its file and line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.staging.tables import ANIMALS, write
from training.contract.errors import InputError
from training.staging.formats.text import DEFAULT_FORMAT
from training.staging.sources.data_files import FileRows, find_data_files

COLUMNS = ["text", "label"]


def rows_of(name: str | Path, **options: Any) -> FileRows:
    return FileRows(find_data_files(str(name)), COLUMNS, DEFAULT_FORMAT, **options)


def split(lines: bytes, folder: Path, suffix: str) -> None:
    """Divide lines into shards as people do."""
    command = ["split", "-l", "4", "-d", f"--additional-suffix={suffix}", "-", "part-"]
    subprocess.run(command, input=lines, cwd=folder, check=True)


def test_shards_of_split_are_read_in_order(tmp_path: Path) -> None:
    content = write(tmp_path / "all.jsonl", ANIMALS).read_bytes()
    (tmp_path / "shards").mkdir()
    split(content, tmp_path / "shards", ".jsonl")
    rows = rows_of(tmp_path / "shards")
    assert list(rows) == [(number, [row["text"], row["label"]]) for number, row in enumerate(ANIMALS, start=1)]
    places = [rows.location(number).removeprefix(f"{tmp_path}/shards/") for number in (1, 4, 5, 10)]
    assert places == [
        "part-00.jsonl line 1",
        "part-00.jsonl line 4",
        "part-01.jsonl line 1",
        "part-02.jsonl line 2",
    ]


def test_each_table_has_its_header_and_the_delimiter_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text;label\na;1\nb;2\n")
    (tmp_path / "b.csv").write_text("label;text\n3;c,d\n")
    rows = rows_of(tmp_path)
    assert list(rows) == [(2, ["a", "1"]), (3, ["b", "2"]), (5, ["c,d", "3"])]
    assert rows.location(5) == f"{tmp_path}/b.csv line 2"


def test_a_table_without_a_header_is_refused_with_the_way_on(tmp_path: Path) -> None:
    split(b"text,label\n" + b"nice film,1\n" * 9, tmp_path, ".csv")
    with pytest.raises(InputError) as caught:
        list(rows_of(tmp_path))
    assert str(caught.value).replace(str(tmp_path), "FOLDER") == (
        "FOLDER/part-01.csv line 1 has no column 'text'; it has 'nice film', '1'. Each file needs the header. If "
        "`split` made the files, only the first has it: join them with `cat`"
    )


def test_one_file_is_open_at_a_time_and_read_lazily(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", ANIMALS)
    (tmp_path / "b.jsonl").write_text("broken\n")
    rows = rows_of(tmp_path)
    assert [next(rows)[0] for _ in ANIMALS] == list(range(1, 11))
    with pytest.raises(InputError, match=r"b.jsonl line 1 is not JSON"):
        next(rows)
