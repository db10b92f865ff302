"""The limit on the content of compressed files, and missing files. `tests.support.corpus` has files of every kind."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.support.staging.tables import ANIMALS, write
from training.contract.errors import InputError
from training.staging.formats.files import MIN_LIMIT_BYTES, TextFormat, check_file, open_bytes
from training.staging.formats.readers import read_rows


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read_rows(path, ["text"], TextFormat(max_expansion=20)))
    return str(caught.value).replace(str(path), "FILE")


def test_the_content_of_a_compressed_file_has_a_limit(tmp_path: Path) -> None:
    """Exactly 40 MiB pass, whatever the size of the file; so does 20 times the size; an uncompressed file has none."""
    path = tmp_path / "a.txt.gz"

    def read(content: bytes, max_expansion: float | None = 20) -> int:
        path.write_bytes(gzip.compress(content, 1))
        with open_bytes(path, max_expansion) as stream:
            return sum(map(len, iter(lambda: stream.read(2**20), b"")))

    line = b"a" * 1023 + b"\n"
    whole = line * (MIN_LIMIT_BYTES // 1024)
    assert read(whole) == MIN_LIMIT_BYTES
    assert read(whole + line, None) == read(whole + line, 1e6) == MIN_LIMIT_BYTES + 1024
    with pytest.raises(InputError) as caught:
        read(whole + line)
    size = path.stat().st_size / 1024
    assert str(caught.value) == (
        f"{path} has {size:.3g} KiB, but contains more than 40 MiB; if that is right, decompress it, or increase "
        "data.max_expansion"
    )
    random = os.urandom(MIN_LIMIT_BYTES // 20 * 3)
    assert read(random + whole) == len(random) + MIN_LIMIT_BYTES
    plain = tmp_path / "a.txt"
    plain.write_bytes(whole + line)
    assert sum(1 for _ in read_rows(plain, ["text"], TextFormat(max_expansion=1))) == MIN_LIMIT_BYTES // 1024 + 1


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
