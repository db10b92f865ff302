"""Rows of files: every error states its line. `tests.support.corpus` has files of every format."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.staging.tables import good
from training.contract.errors import InputError
from training.staging.formats.readers import read_rows

FORMATS = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "arrow", "feather"]


def refused(path: Path, *columns: str) -> str:
    with pytest.raises(InputError) as caught:
        good(read_rows(path, columns or ("text", "label")))
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "FILE")


def test_a_field_may_exceed_pythons_default_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"text,label\n{'a' * 200_000},x\n")
    assert len(next(iter(read_rows(path, ["text", "label"])))[1][0]) == 200_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.gz", b"x", "FILE has the unknown suffix ''"),
        ("a.xlsx", b"x", "FILE cannot be read: save the sheet as CSV"),
        ("a.pkl", b"x", "FILE cannot be read: a pickle can run any code, so convert it with pandas' to_parquet"),
        ("a.csv.xz", b"x", "FILE cannot be read: decompress it, or use .gz, .bz2, .zst"),
        ("a.jsonl", b"[" * 100_000 + b"\n", "FILE line 1 is not JSON: maximum recursion depth"),
        ("a.jsonl", b'{"text": "a", "label": ' + b"9" * 5_000 + b"}\n", "FILE line 1 is not JSON: Exceeds the limit"),
        ("a.jsonl", b'{"txt": "a", "label": 1}\n', "FILE line 1 has no column 'text'; it has 'txt', 'label'. Did you"),
        ("a.csv", b"text,label\ra,b\r", "FILE line 1 has a carriage return that ends no line"),
        ("a.csv", b"\n\n", "FILE line 2 has no column 'text'; it has none."),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path).startswith(message)


@given(st.binary(max_size=400), st.sampled_from([*FORMATS, "txt", "csv.gz"]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_rows_or_an_input_error(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"any.{suffix}"
    path.write_bytes(content)
    with suppress(InputError):
        list(read_rows(path, ["text"]))
