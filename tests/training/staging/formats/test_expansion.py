"""Limits on what a data file becomes in memory: exact at their boundary, and met by hostile files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.attacks.counts import Counts
from tests.support.attacks.hostile_files import HOSTILE_FILES
from tests.support.attacks.inputs import attempt
from training.contract.errors import InputError
from training.staging.formats.expansion import MIN_LIMIT_BYTES, ROW_BYTES, Expansion, check_values
from training.staging.formats.readers import read_rows
from training.staging.rows.examples import MAX_TEXT_CHARACTERS, checked_text
from training.staging.rows.squad_json import squad_rows

FILES = {each.name: each for each in HOSTILE_FILES}
QUICK = (
    "deep.jsonl",
    "exponent.jsonl",
    "cut.jsonl.gz",
    "label.jsonl",
    "footer.parquet",
    "loop.jsonl",
    "columns.parquet",
    "newlines.csv.zst",
    "window.jsonl.zst",
)
COSTLY = (
    "zeros.json.gz",
    "compressed.parquet",
    "windows.json",
    "text-at-limit.txt",
    "keys.jsonl",
    "newlines.csv.bz2",
    "answers.feather",
)


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


@pytest.mark.parametrize("rows", [35, 60])
def test_equal_texts_of_parquet_count_each(tmp_path: Path, rows: int) -> None:
    """Parquet stores the text of 1 MB once. 35 rows with it are within 40 MiB, and 60 are not."""
    path, text = tmp_path / "a.parquet", "ab " * 333_333
    pq.write_table(pa.table({"text": [text] * rows, "label": [0] * rows}), path)
    assert path.stat().st_size < 100_000
    if rows == 60:
        with pytest.raises(InputError, match="contains more than 40 MiB"):
            list(read_rows(path, ["text", "label"], Expansion(path)))
        return
    assert list(read_rows(path, ["text", "label"], Expansion(path))) == [(at, [text, 0]) for at in range(1, rows + 1)]


def test_nested_answers_of_parquet_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    row = {
        "id": "1",
        "context": "a b",
        "question": "?",
        "answers": {"text": ["a", "a", "b"], "answer_start": [0, 0, 2]},
    }
    pq.write_table(pa.Table.from_pylist([row]), path)
    assert list(read_rows(path, list(row), Expansion(path))) == [(1, list(row.values()))]


def test_a_context_counts_for_each_question(tmp_path: Path, shared: Path) -> None:
    """Real data, where contexts have about five questions each, is far below the limit."""
    path = shared / "data" / "squad-v1.1-train-composite15000.json.gz"
    expansion = Expansion(path)
    contexts = sum(len(values[1]) + ROW_BYTES for _, values in squad_rows(path, expansion))
    assert contexts < 0.5 * 20 * path.stat().st_size


@pytest.mark.parametrize(("text", "delimiter"), [("[", None), ("{", None), (",", None), ("\t", "\t")])
def test_text_with_too_many_values_is_refused(text: str, delimiter: str | None) -> None:
    """1,600,000 characters may have 1,100,000 values."""
    check_values("a line", text * 1_100_000 + "x" * 500_000, delimiter)
    with pytest.raises(InputError) as caught:
        check_values("a line", text * 1_100_001 + "x" * 499_999, delimiter)
    assert str(caught.value) == "a line has 1,100,001 values, but 1.53 MiB of text may have at most 1,100,000"


def test_a_text_of_a_row_is_limited() -> None:
    checked_text("a.jsonl line 1", "text", "a" * MAX_TEXT_CHARACTERS)
    with pytest.raises(InputError) as caught:
        checked_text("a.jsonl line 1", "text", "a" * (MAX_TEXT_CHARACTERS + 1))
    assert str(caught.value) == (
        "a.jsonl line 1: column 'text' has 1,500,001 characters, and a row may have 1,500,000; split the text into "
        "several rows"
    )


def tried(name: str, folder: Path) -> None:
    counts = Counts("hostile data file")
    with pytest.MonkeyPatch.context() as patch:
        # The benchmark judges the time. Here, other tests run beside it.
        patch.setattr("tests.support.attacks.inputs.MAX_REFUSAL_SECONDS", 200.0)
        attempt(counts, FILES[name], folder)
    assert counts.faults == []


@pytest.mark.parametrize("name", QUICK)
def test_hostile_files_are_refused(tmp_path: Path, name: str) -> None:
    tried(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_costly_hostile_files_need_little_memory(tmp_path: Path, name: str) -> None:
    tried(name, tmp_path)
