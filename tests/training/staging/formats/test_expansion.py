"""Limits on what a data file becomes in memory, exact at their boundary."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.staging.tables import zstandard
from training.contract.errors import InputError
from training.staging.formats.expansion import MIN_LIMIT_BYTES, ROW_BYTES, Expansion
from training.staging.formats.readers import read_rows
from training.staging.rows.examples import MAX_TEXT_CHARACTERS, checked_text
from training.staging.rows.squad_json import squad_rows


def test_a_limit_counts_text_and_rows(tmp_path: Path) -> None:
    """A file of 1,000 bytes may contain 40 MiB by the smallest limit; one of 4 MiB 80 MiB, 20 times its size."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(bytes(1_000))
    expansion = Expansion(path, 20.0)
    expansion.add(MIN_LIMIT_BYTES - ROW_BYTES)
    with pytest.raises(InputError) as caught:
        expansion.add(0, rows=1)
    assert str(caught.value) == (
        f"{path} has 1000 bytes, but contains more than 40 MiB; if that is right, decompress it, or increase "
        "data.max_expansion"
    )
    path.write_bytes(bytes(4 * 1024**2))
    assert Expansion(path, 20.0).limit == 80 * 1024**2


def test_lines_of_compressed_files_are_counted(tmp_path: Path) -> None:
    """Each line of 100 characters counts as 200 bytes. Exactly the limit passes, also with blank lines."""
    line = b"a" * 99 + b"\n"
    within = MIN_LIMIT_BYTES // (100 + ROW_BYTES)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(line * within, 1))
    assert sum(1 for _ in read_rows(path, ["text"], Expansion(path))) == within
    path.write_bytes(gzip.compress(line * within + b"\n" * 2, 1))
    with pytest.raises(InputError, match="is right, decompress it"):
        list(read_rows(path, ["text"], Expansion(path)))
    assert sum(1 for _ in read_rows(path, ["text"], Expansion(path, 1_000.0))) == within
    assert sum(1 for _ in read_rows(path, ["text"], Expansion(path, keeps_rows=False))) == within


def test_uncompressed_lines_have_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" * (MIN_LIMIT_BYTES // ROW_BYTES + 1))
    assert sum(1 for _ in read_rows(path, ["text"], Expansion(path, 1.0))) == MIN_LIMIT_BYTES // ROW_BYTES + 1


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", lambda data: gzip.compress(data, 1)), (".bz2", bz2.compress), (".zst", zstandard)]
)
@pytest.mark.parametrize(
    ("name", "unit", "message"),
    [
        ("a.csv", b"\n", "contains more than 40 MiB"),
        ("a.jsonl", b" ", "is longer than 32 MiB"),
        ("a.json", b"[" + b" " * 9_999, "contains more than 40 MiB|is not JSON"),
        ("a.parquet", b"\0", "contains more than 40 MiB"),
    ],
)
def test_bombs_are_refused(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes], name: str, unit: bytes, message: str
) -> None:
    """A small file contains 50 MB."""
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(pack(unit * (50_000_000 // len(unit))))
    assert path.stat().st_size < 250_000
    with pytest.raises(InputError, match=message):
        list(read_rows(path, ["text"], Expansion(path)))


def test_a_zstandard_frame_that_requests_a_window_of_2_gib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x03\x00\x00" + b"a" * 100)
    with pytest.raises(InputError, match="is not a valid Zstandard file"):
        list(read_rows(path, ["text"], Expansion(path)))


def test_a_context_counts_for_each_question(tmp_path: Path, shared: Path) -> None:
    """Real data, where contexts have about five questions each, is far below the limit."""
    path = shared / "data" / "squad-v1.1-train-composite15000.json.gz"
    expansion = Expansion(path)
    contexts = sum(len(values[1]) + ROW_BYTES for _, values in squad_rows(path, expansion))
    assert contexts < 0.5 * 20 * path.stat().st_size


def test_a_text_of_a_row_is_limited() -> None:
    checked_text("a.jsonl line 1", "text", "a" * MAX_TEXT_CHARACTERS)
    with pytest.raises(InputError) as caught:
        checked_text("a.jsonl line 1", "text", "a" * (MAX_TEXT_CHARACTERS + 1))
    assert str(caught.value) == (
        "a.jsonl line 1: column 'text' has 1,500,001 characters, and a row may have 1,500,000; split the text into "
        "several rows"
    )
