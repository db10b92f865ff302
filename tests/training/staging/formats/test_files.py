"""Missing files. `tests.support.corpus` has files of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.staging.tables import ANIMALS, write
from training.contract.errors import InputError
from training.staging.formats.files import check_file
from training.staging.formats.readers import read_rows


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read_rows(path, ["text"]))
    return str(caught.value).replace(str(path), "FILE")


def test_missing_files_folders_and_pipes_are_errors(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    assert refused(tmp_path / "folder.jsonl") == "FILE is a folder, not a data file"
    write(tmp_path / "train.jsonl", ANIMALS)
    assert refused(tmp_path / "trian.jsonl") == "FILE does not exist. Did you mean 'train.jsonl'?"
    assert refused(tmp_path / "absent" / "a.jsonl").endswith("/absent does not exist either.")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert refused(tmp_path / "pipe.jsonl") == "FILE is not a regular file"
    with pytest.raises(InputError, match="does not exist"):
        check_file(Path("a\0b.jsonl"))
