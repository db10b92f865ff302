"""YAML in experiments: values, lines, and refused features."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from experiments.schema.yaml_document import MAX_BYTES, as_yaml, parse, read_document, scalar
from training.contract.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("3", 3),
        ("-0.5", -0.5),
        ("no", "no"),
        ("off", "off"),
        ("true", True),
        ("null", None),
        ("", None),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_quoted_scalars_are_text_and_huge_numbers_floats() -> None:
    assert parse("a: '64'\nb: \"no\"\nc: |\n  7\n", "t")[0] == {"a": "64", "b": "no", "c": "7\n"}
    assert math.isnan(scalar(".nan"))
    assert scalar("9" * 400) == math.inf
    assert scalar("1" * 30) == float("1" * 30)


def test_what_is_written_is_read_back() -> None:
    tree = {"1": ["1e-5", 1e-5, "no", "~", None, True], "a.b": {"c": "it's: “new”\n # " + "word " * 60}}
    assert parse(as_yaml(tree), "it")[0] == tree


def test_lines_of_keys_and_items_are_recorded() -> None:
    tree, lines = parse("a: 1\nb:\n  c: [x, y]\n  d:\n    - z\n", "t.yaml")
    assert tree == {"a": 1, "b": {"c": ["x", "y"], "d": ["z"]}}
    assert lines[("a",)] == 1
    assert lines[("b", "c", 1)] == 3
    assert lines[("b", "d", 0)] == 5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "t line 3 is not plain YAML: the key 'a' is repeated; the first one is in line 1"),
        ("a: &x 1\nb: *x\n", "t line 2 is not plain YAML: the alias *x is not allowed; write the value out"),
        (
            "a: !!python/name:os.system\n",
            "t line 1 is not plain YAML: the tag tag:yaml.org,2002:python/name:os.system",
        ),
        ("a: [1\nb: 2\n", "t line 2 is not plain YAML: "),
        ("[" * 13 + "]" * 13, "t line 1 is not plain YAML: values nest deeper than 12 levels"),
        ("[" * 100_000, "t is not plain YAML: its values nest too deeply"),
        ("a: 1\n---\nb: 2\n", "t line 2 is not plain YAML: expected a single document in the stream, but found"),
        ("a: \ud83d", "t is not plain YAML: "),
    ],
)
def test_unsupported_yaml_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "t")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "must contain a mapping of fields, not nothing"),
        (b"a: 1\nb: \xff\n", "line 2 is not UTF-8: byte 0xff"),
        (b"#" * (MAX_BYTES + 1), "is larger than 256 KiB"),
    ],
)
def test_files_that_are_not_experiments_are_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "with space.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_document(path)


def test_a_folder_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: it is a folder"):
        read_document(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_document(tmp_path / "absent.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match=r"file '.*pipe\.yaml' cannot be read: it is not a regular file$"):
        read_document(tmp_path / "pipe.yaml")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(path).tree == {"a": 1}
