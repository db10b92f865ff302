"""Folders and patterns of shards: their order, their key, and everything that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.staging.tables import ANIMALS, write
from training.contract.errors import InputError
from training.staging.formats.files import DEFAULT_FORMAT, TextFormat
from training.staging.sources import data_files
from training.staging.sources.data_files import FileRows, find_data_files

COLUMNS = ["text", "label"]


def refused(name: str | Path, folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        find_data_files(str(name))
    return str(caught.value).replace(str(folder), "FOLDER")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    for name in ("part-2.jsonl", "part-10.jsonl", "part-1.jsonl.gz"):
        write(folder / name, ANIMALS)
    (folder / "_SUCCESS").touch()
    (folder / ".part-1.crc").touch()
    return folder


@pytest.mark.parametrize("pattern", ["", "part-*", "*.jsonl*", "part-[12]*"])
def test_files_are_in_the_order_of_their_names(shards: Path, pattern: str) -> None:
    found = find_data_files(str(shards / pattern))
    assert [path.name for path in found.paths] == ["part-1.jsonl.gz", "part-10.jsonl", "part-2.jsonl"]
    assert found.name == str(shards / pattern)


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "data [final].csv", ANIMALS)
    assert find_data_files(str(path)).paths == (path,)


def test_folders_that_are_unclear_are_refused(shards: Path, tmp_path: Path) -> None:
    (shards / "README.md").write_text("notes")
    assert refused(shards, tmp_path) == (
        "FOLDER/shards/README.md has the unknown suffix '.md'; use .jsonl, .ndjson, .json, .csv, .tsv, .parquet, "
        ".arrow, .feather, .ipc, .txt, .conll, optionally followed by .gz or .bz2 or .zst, or name the files to read "
        "with a pattern, such as 'FOLDER/shards/*.jsonl'"
    )
    (shards / "README.md").rename(shards / "a.csv")
    assert refused(shards, tmp_path) == (
        "the files of FOLDER/shards must have one format, but 'a.csv' and 'part-2.jsonl' differ; use a pattern, such "
        "as '*.csv'"
    )
    (shards / "a.csv").unlink()
    (shards / "more").mkdir()
    assert refused(shards, tmp_path).startswith("FOLDER/shards contains the folder 'more'; name the files with a")
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty", tmp_path) == "FOLDER/empty is a folder without data files"


def test_patterns_that_match_nothing_or_too_much_are_refused(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(shards / "*.csv", tmp_path) == (
        "FOLDER/shards/*.csv matches no file; the folder FOLDER/shards has 'part-1.jsonl.gz', "
        "'part-10.jsonl', 'part-2.jsonl'"
    )
    assert refused(tmp_path / "no" / "*.csv", tmp_path) == (
        "FOLDER/no/*.csv matches no file; the folder FOLDER/no does not exist"
    )
    assert refused(tmp_path / "**" / "*.csv", tmp_path).startswith("FOLDER/**/*.csv contains **, which may match every")
    assert refused(tmp_path / "*", tmp_path) == "FOLDER/shards is a folder, not a data file"
    monkeypatch.setattr(data_files, "MAX_FILES", 2)
    for name in (shards, shards / "*"):
        assert refused(name, tmp_path).endswith("more than 2 files; join them into fewer")


def test_the_key_covers_every_shard_and_its_order(shards: Path) -> None:
    def digest() -> str:
        return find_data_files(str(shards)).digest(DEFAULT_FORMAT)

    before = digest()
    assert before == digest()
    write(shards / "part-2.jsonl", ANIMALS[:-1])
    changed = digest()
    assert changed != before
    (shards / "part-2.jsonl").rename(shards / "part-0.jsonl")
    assert digest() not in {before, changed}
    (shards / "part-0.jsonl").unlink()
    assert digest() != changed


def test_the_key_covers_the_encoding_and_the_delimiter(tmp_path: Path) -> None:
    files = find_data_files(str(write(tmp_path / "a.csv", ANIMALS)))
    formats = [TextFormat(), TextFormat(encoding="cp1252"), TextFormat(delimiter=";")]
    assert len({files.digest(text) for text in formats}) == 3
    binary = find_data_files(str(write(tmp_path / "a.parquet", ANIMALS)))
    assert len({binary.digest(text) for text in formats}) == 1


def test_the_description_says_what_the_names_do_not_show(tmp_path: Path) -> None:
    def described(text: TextFormat = DEFAULT_FORMAT) -> str:
        return find_data_files(str(tmp_path)).described(COLUMNS, text).removeprefix(str(tmp_path))

    path = write(tmp_path / "a.csv", ANIMALS)
    assert find_data_files(str(path)).described(COLUMNS, DEFAULT_FORMAT) == str(path)
    path.write_text("text;label\na;1\n")
    assert described() == " (delimiter ';')"
    (tmp_path / "b.csv").write_text("text;label\na;1\n")
    assert described() == " (2 files, delimiter ';')"
    assert described(TextFormat(encoding="cp1252")) == " (2 files, cp1252, delimiter ';')"
    path.write_text("text\tlabel\na\t1\n")
    assert described() == " (2 files, delimiter a tab or ';')"


def rows_of(name: str | Path, **options: Any) -> FileRows:
    return FileRows(find_data_files(str(name)), COLUMNS, DEFAULT_FORMAT, **options)


def test_one_file_is_open_at_a_time_and_read_lazily(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", ANIMALS)
    (tmp_path / "b.jsonl").write_text("broken\n")
    rows = rows_of(tmp_path)
    assert [next(rows)[0] for _ in ANIMALS] == list(range(1, 11))
    assert str(next(rows)[1]).startswith(f"{tmp_path / 'b.jsonl'} line 1 is not JSON")
