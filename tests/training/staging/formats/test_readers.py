"""Rows of files: every error states its line. `tests.support.corpus` has files of every format."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.staging.tables import ANIMALS, write, zstandard
from training.contract.errors import InputError
from training.staging.formats.expansion import Expansion
from training.staging.formats.readers import read_rows, unit_of

FORMATS = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "arrow", "feather"]


LINES = b'{"text": "a", "label": 1}\n' * 99


def refused(path: Path, *columns: str) -> str:
    with pytest.raises(InputError) as caught:
        list(read_rows(path, columns or ("text", "label"), Expansion(path)))
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "FILE")


def test_rows_are_counted_in_parquet_and_lines_elsewhere() -> None:
    assert unit_of(Path("a.parquet.gz")) == "row"
    assert unit_of(Path("a.arrow.zst")) == "row"
    assert unit_of(Path("a.csv.gz")) == "line"


def test_upper_case_suffixes_blank_lines_and_a_byte_order_mark_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "ROWS.JSONL"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a", "label": 1}\r\n\r\n{"text": "b\xe2\x80\xa8c", "label": 2}')
    assert list(read_rows(path, ["text", "label"], Expansion(path))) == [(1, ["a", 1]), (3, ["b\u2028c", 2])]
    table = tmp_path / "ROWS.CSV"
    table.write_bytes(b'\xef\xbb\xbftext,label\r\n"two\r\nlines",x\r\n\r\nb,y\r\n')
    assert list(read_rows(table, ["text", "label"], Expansion(table))) == [(3, ["two\r\nlines", "x"]), (5, ["b", "y"])]


def test_a_quotation_mark_in_tsv_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "glue.tsv"
    path.write_text('sentence\tlabel\n"open and never closed\t1\nfine\t0\n')
    assert [values for _, values in read_rows(path, ["sentence", "label"], Expansion(path))] == [
        ['"open and never closed', "1"],
        ["fine", "0"],
    ]


def test_a_field_may_exceed_pythons_default_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"text,label\n{'a' * 200_000},x\n")
    assert len(next(iter(read_rows(path, ["text", "label"], Expansion(path))))[1][0]) == 200_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "FILE is empty"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0), "FILE is empty"),
        (
            "a.dat",
            b"x",
            "FILE has the unknown suffix '.dat'; use .jsonl, .ndjson, .json, .csv, .tsv, .parquet",
        ),
        (
            "a.xlsx",
            b"x",
            'FILE cannot be read: save the sheet as CSV, or convert it: python -c "import pandas; pandas.',
        ),
        ("a.pkl", b"x", "FILE cannot be read: a pickle can run any code, so convert it: python -c"),
        ("a.csv.zip", b"x", "FILE cannot be read: unpack it"),
        ("a.csv.xz", b"x", "FILE cannot be read: decompress it, or use .gz, .bz2, .zst"),
        (
            "a.csv",
            b"PK\x03\x04\x14\0\0",
            "FILE is a ZIP archive or an Excel workbook; unpack it, or save its sheet as CSV",
        ),
        ("a.csv", gzip.compress(b"text", mtime=0), "FILE is compressed with gzip; give its name the suffix .gz"),
        ("a.jsonl.bz2", b"no bzip2", "FILE is not a valid bzip2 file: Invalid data stream"),
        ("a.jsonl.bz2", bz2.compress(LINES)[:-12], "FILE is a truncated bzip2 file"),
        ("a.jsonl.zst", b"no zstd", "FILE is not a valid Zstandard file"),
        ("a.jsonl.zst", zstandard(LINES)[:-2], "FILE is a truncated Zstandard file"),
        (
            "a.jsonl",
            b"[1, 2]\n",
            "FILE line 1 must be a JSON object, not list; a file that is one JSON array needs the",
        ),
        ("a.gz", b"x", "FILE has the unknown suffix ''"),
        ("a.jsonl", b'{"text": "a", "label": 1}\n' * 16 + b'{"text": \n', "FILE line 17 is not JSON: Expecting value"),
        ("a.jsonl", b"[1, 2]\n", "FILE line 1 must be a JSON object, not list"),
        ("a.json", b'[\n{"text": "a"}\n]\n', "FILE row 1 has no column 'label'; it has 'text'."),
        ("a.jsonl", b"[" * 100_000 + b"\n", "FILE line 1 is not JSON: maximum recursion depth"),
        ("a.jsonl", b'{"text": "a", "label": ' + b"9" * 5_000 + b"}\n", "FILE line 1 is not JSON: Exceeds the limit"),
        ("a.jsonl", b'{"txt": "a", "label": 1}\n', "FILE line 1 has no column 'text'; it has 'txt', 'label'. Did you"),
        ("a.jsonl", b'{"text": "a\0"}\n', "FILE line 1 contains a NUL byte; the file must be UTF-8 text"),
        ("a.jsonl", b'{"text": "ab"}\n{"text": "\xff"}\n', "FILE line 1 has no column 'label'"),
        (
            "a.csv",
            b"text,label\na,b\nc\xe9,d\n",
            "FILE line 3 is not UTF-8: byte 0xe9 at column 2 is invalid; set data.encoding to the file's encoding",
        ),
        ("a.csv", b"text,label\na,b\nc\n", "FILE line 3 has 1 fields, but the header has 2"),
        ("a.tsv", b"text\tlabel\na\tb\tc\n", "FILE line 2 has 3 fields, but the header has 2"),
        ("a.csv", b"text,labels\na,b\n", "FILE line 1 has no column 'label'; it has 'text', 'labels'. Did you mean"),
        ("a.csv", b"text,label,text\na,b,c\n", "FILE line 1 has the column 'text' twice"),
        ("a.csv", b'text,label\n"a,b\n', "FILE line 2 is malformed: unexpected end of data"),
        ("a.csv", b'text,label\n"a"x,b\n', "FILE line 2 is malformed: ',' expected after '\"'"),
        ("a.csv", b"text,label\ra,b\r", "FILE line 1 is malformed: new-line character seen in unquoted field"),
        ("a.csv", b"\n\n", "FILE line 2 has no column 'text'; it has none."),
        ("a.jsonl.gz", b"no gzip", "FILE is not a valid gzip file: Not a gzipped file"),
        (
            "a.jsonl.gz",
            gzip.compress(b'{"text": "a", "label": 1}\n' * 99, mtime=0)[:-12],
            "FILE is a truncated gzip file",
        ),
        ("a.parquet", b"PAR1 and no more", "FILE is not a valid Parquet file"),
        ("a.parquet.gz", gzip.compress(b"no", mtime=0), "FILE is not a valid Parquet file"),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path).startswith(message)


def test_a_wrong_checksum_in_gzip_is_an_error(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(json.dumps({"text": "a", "label": 1}).encode()))
    content[-8] ^= 1
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content)
    assert refused(path).startswith("FILE is not a valid gzip file: CRC check failed")


def test_missing_files_folders_and_pipes_are_errors(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    assert refused(tmp_path / "folder.jsonl") == "FILE is a folder, not a data file"
    write(tmp_path / "train.jsonl", ANIMALS)
    assert refused(tmp_path / "trian.jsonl") == "FILE does not exist. Did you mean 'train.jsonl'?"
    assert refused(tmp_path / "absent" / "a.jsonl").endswith("/absent does not exist either.")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert refused(tmp_path / "pipe.jsonl") == "FILE is not a regular file"
    assert "does not exist" in refused(Path("a\0b.jsonl"))


@given(st.binary(max_size=400), st.sampled_from([*FORMATS, "txt", "csv.gz"]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_rows_or_an_input_error(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"any.{suffix}"
    path.write_bytes(content)
    with suppress(InputError):
        list(read_rows(path, ["text"], Expansion(path)))


def test_rows_are_read_lazily(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a", "label": 1}\nbroken\n')
    rows = read_rows(path, ["text"], Expansion(path))
    assert next(rows) == (1, ["a"])
    rows.close()  # type: ignore[attr-defined]
