"""JSON as people's tools write it: lines, arrays, and forms that are refused."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from training.contract.errors import InputError
from training.staging.formats import json_stream
from training.staging.formats.expansion import MIN_LIMIT_BYTES, ROW_BYTES, Expansion
from training.staging.formats.readers import read_rows, unit_of

FRAME = pd.DataFrame({"text": ["a ü\n", 'b "c"'], "label": [1.0, 0.0]})


def read(path: Path) -> list[tuple[int, list[Any]]]:
    return list(read_rows(path, ["text", "label"], Expansion(path)))


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize("indent", [0, 2])
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_a_json_array_of_pandas_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int, size: int
) -> None:
    monkeypatch.setattr(json_stream, "CHUNK_CHARACTERS", size)
    path = tmp_path / "a.json"
    FRAME.to_json(path, orient="records", indent=indent)
    assert read(path) == [(1, ["a ü\n", 1.0]), (2, ['b "c"', 0.0])]
    assert unit_of(path) == "row"


def test_json_lines_of_pandas_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    FRAME.to_json(path, orient="records", lines=True)
    assert read(path) == [(1, ["a ü\n", 1.0]), (2, ['b "c"', 0.0])]
    assert unit_of(path) == "line"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a", "label": 1}, 5]', "FILE row 2 must be a JSON object, not int"),
        ('[{"text": "a", "label": 1}, {"text": "b"}]', "FILE row 2 has no column 'label'; it has 'text'."),
        ('[{"text": "a", "label": 1}', "FILE is not JSON: Expecting ',' delimiter at line 1 column 27"),
        ('[{"text": "a", "label": 1}] {}', "FILE is not JSON: Extra data at line 1 column 29"),
        ('{\n "text": "a"\n}', "FILE line 1 is not JSON: Expecting property name enclosed in double quotes at column"),
    ],
)
def test_a_broken_array_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert refused(path).startswith(message)


def test_a_table_by_columns_is_refused_with_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    FRAME.to_json(path)
    assert refused(path) == (
        "FILE line 1 contains a whole table by columns; write it as rows, such as with pandas' to_json(path, "
        "orient='records', lines=True)"
    )


def test_values_and_compressed_arrays_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"text": "' + b"a" * (40 * 2**20) + b'", "label": 1}]')
    assert refused(path) == "FILE line 1 has a value of more than 33,554,432 characters"
    packed = tmp_path / "a.json.bz2"
    packed.write_bytes(bz2.compress(b"[" + b'{"text": "a", "label": 1},' * (MIN_LIMIT_BYTES // ROW_BYTES + 1)))
    assert "contains more than 40 MiB" in refused(packed)
