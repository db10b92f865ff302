"""JSON is read row by row. Errors have their position."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.support.staging.tables import good
from training.contract.errors import InputError
from training.job.tasks import SQUAD_COLUMNS
from training.staging.formats.files import Row
from training.staging.formats.readers import read_rows, unit_of

COLUMNS = ["text", "label"]
FRAME = pd.DataFrame({"text": ["a ü\n", 'b "c"'], "label": [1.0, 0.0]})


def read(path: Path) -> list[Row]:
    return good(read_rows(path, COLUMNS))


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


@pytest.mark.parametrize(
    "text",
    ["[1, 2", "[1,\n\n  tru]", "[1 2]", '["a\n"]', '[{"a": 1}]\n x', '[{"a": -}]'],
)
def test_errors_in_an_array_have_their_position(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(json.JSONDecodeError) as whole:
        json.loads(text)
    position = f"{whole.value.msg} at line {whole.value.lineno} column {whole.value.colno}"
    assert refused(path).startswith(f"FILE is not JSON: {position}")
