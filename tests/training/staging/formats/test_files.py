"""Compressed files: their errors, and the limit on their content. `tests.support.corpus` has files of every kind."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.staging.tables import ANIMALS, write, zstandard
from training.contract.errors import InputError
from training.staging.formats.files import MIN_LIMIT_BYTES, check_file, open_bytes
from training.staging.formats.readers import read_rows
from training.staging.formats.text import TextFormat

LINES = b'{"text": "a", "label": 1}\n' * 99


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


@pytest.mark.parametrize(
    ("name", "pack", "unit", "message"),
    [
        ("a.csv.gz", lambda data: gzip.compress(data, 1), b"\n", "contains more than 40 MiB"),
        ("a.jsonl.bz2", bz2.compress, b" ", "is longer than 32 MiB"),
        ("a.json.zst", zstandard, b"[" + b" " * 9_999, "contains more than 40 MiB|is not JSON"),
        ("a.parquet.zst", zstandard, b"\0", "contains more than 40 MiB"),
    ],
)
def test_bombs_are_refused(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], unit: bytes, message: str
) -> None:
    """A small file contains 50 MB."""
    path = tmp_path / name
    path.write_bytes(pack(unit * (50_000_000 // len(unit))))
    with pytest.raises(InputError, match=message):
        list(read_rows(path, ["text"], TextFormat(max_expansion=20)))


def test_a_damaged_compressed_file_is_an_error(tmp_path: Path) -> None:
    wrong_checksum = bytearray(gzip.compress(json.dumps({"text": "a"}).encode()))
    wrong_checksum[-8] ^= 1
    window_of_2_gib = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x03\x00\x00" + b"a" * 100
    for name, content, message in (
        ("a.jsonl.gz", gzip.compress(b"", mtime=0), "FILE is empty"),
        ("a.jsonl.gz", b"no gzip", "FILE is not a valid gzip file: Not a gzipped file"),
        ("a.jsonl.gz", bytes(wrong_checksum), "FILE is not a valid gzip file: CRC check failed"),
        ("a.jsonl.bz2", b"no bzip2", "FILE is not a valid bzip2 file: Invalid data stream"),
        ("a.jsonl.bz2", bz2.compress(LINES)[:-12], "FILE is a truncated bzip2 file: it ends before its end marker"),
        ("a.jsonl.zst", zstandard(LINES)[:-2], "FILE is a truncated Zstandard file"),
        ("a.jsonl.zst", window_of_2_gib, "FILE is not a valid Zstandard file"),
        ("a.parquet.gz", gzip.compress(b"no", mtime=0), "FILE is not a valid Parquet file"),
    ):
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path / name).startswith(message)


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
