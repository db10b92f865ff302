"""JSON is read row by row, and large documents piece by piece as `json` reads them as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.contract.errors import InputError
from training.job.tasks import SQUAD_COLUMNS
from training.staging.formats import readers
from training.staging.formats.files import DEFAULT_FORMAT, open_text
from training.staging.formats.readers import read_rows, unit_of

COLUMNS = ["text", "label"]
FRAME = pd.DataFrame({"text": ["a ü\n", 'b "c"'], "label": [1.0, 0.0]})


def read(path: Path) -> list[tuple[int, list[Any]]]:
    return list(read_rows(path, COLUMNS))


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value).replace(str(path), "FILE")


def test_the_unit_of_rows_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    FRAME.to_json(path, orient="records")
    assert unit_of(path, COLUMNS) == "row"
    FRAME.to_json(path, orient="records", lines=True)
    assert unit_of(path, COLUMNS) == "line"
    assert unit_of(path, SQUAD_COLUMNS) == "question"


def test_values_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"text": "' + b"a" * (40 * 2**20) + b'", "label": 1}]')
    assert refused(path) == "FILE line 1 has a value of more than 33,554,432 characters"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def elements(path: Path) -> Any:
    with open_text(path, DEFAULT_FORMAT) as file:
        stream = readers.JsonStream(path, file, DEFAULT_FORMAT)
        values = list(stream.elements())
        stream.end()
    return values


@given(st.lists(VALUES, max_size=6), st.booleans(), st.integers(1, 9))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_are_read_like_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: list[Any], ascii_only: bool, size: int
) -> None:
    monkeypatch.setattr(readers, "CHUNK_CHARACTERS", size)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(data, ensure_ascii=ascii_only, indent=1), "utf-8", "surrogatepass")
    assert elements(path) == json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    "text",
    ["[1, 2", "[1,\n\n  tru]", "[1 2]", '["a\n"]', '[{"a": 1}]\n x', '[{"a": -}]'],
)
def test_errors_have_the_position_in_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, text: str
) -> None:
    monkeypatch.setattr(readers, "CHUNK_CHARACTERS", size)
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(json.JSONDecodeError) as whole:
        json.loads(text)
    with pytest.raises(InputError) as pieces:
        elements(path)
    position = f"{whole.value.msg} at line {whole.value.lineno} column {whole.value.colno}"
    assert str(pieces.value).startswith(f"{path} is not JSON: {position}")
