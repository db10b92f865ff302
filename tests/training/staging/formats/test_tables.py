"""Delimiters of tables, by their header. `tests.support.corpus` has tables with every delimiter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.staging.tables import good
from training.contract.errors import InputError
from training.staging.formats.files import Row, TextFormat
from training.staging.formats.readers import read_rows, table_delimiter

COLUMNS = ["text", "label"]


def read(path: Path, columns: list[str] = COLUMNS, **text: Any) -> list[Row]:
    return good(read_rows(path, columns, TextFormat(**text)))


def refused(path: Path, columns: list[str] = COLUMNS, **text: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, columns, **text)
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("content", "columns", "delimiter"),
    [
        ("text\na;b\nc|d\te\n", ["text"], ","),
        ("title;body,label\na,1\n", ["title;body", "label"], ","),
        ('"text";"label";"a,b"\nx;y;z\n', COLUMNS, ";"),
        ("no table\nat all\n", COLUMNS, ","),
    ],
)
def test_the_header_decides(tmp_path: Path, content: str, columns: list[str], delimiter: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert table_delimiter(path, columns, TextFormat()) == delimiter


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "txt;label\na;1\n",
            "FILE line 1 has no column 'text'; it has 'txt', 'label'. Did you mean 'txt'? "
            "Its fields were separated at ';'.",
        ),
        (
            "a.csv",
            "text~label\na~1\n",
            "FILE line 1 has no column 'text'; it has 'text~label'. None of ',', ';', a tab, "
            "'|' separates its fields: set data.delimiter if another character does.",
        ),
        (
            "a.tsv",
            'text\tlabel\n"two\nlines"\t1\n',
            "FILE line 2 has 1 fields, but the header has 2; quotation marks have a meaning in .csv, but not in .tsv: "
            "rename the file",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_way_on(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert refused(path) == message
