"""Test that a column gives each format its number and its text."""

from __future__ import annotations

import math

import pytest

from reports.model.numbers import money
from reports.model.report import Cell, Column, build_table, values_by_title

SECONDS = Column[float | None]("billed", lambda seconds: seconds, unit="s")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (12_300.4, Cell(text="12,300", number=12_300.4)),
        (3, Cell(text="3", number=3)),
        (-4.2, Cell(text="-4.20", number=-4.2)),
        (None, Cell(text="–")),
        (math.nan, Cell(text="–")),
        (math.inf, Cell(text="∞")),
        ("no success", Cell(text="no success")),
        (Cell(text="≥ 64", number=64.0), Cell(text="≥ 64", number=64.0)),
    ],
)
def test_a_cell_has_the_number_that_its_text_shows(value: float | str | Cell | None, expected: Cell) -> None:
    assert Column[object]("billed", lambda _: value).cell(None) == expected


def test_mlflow_stores_numbers_to_six_digits_and_other_texts_as_they_are() -> None:
    table = build_table("t", [Column[float | None]("name", lambda _: "8bit"), SECONDS], [1234.56789, None])
    assert values_by_title(table) == [{"name": "8bit", "billed, s": 1234.57}, {"name": "8bit", "billed, s": "–"}]


def test_an_optional_column_without_values_is_left_out() -> None:
    usd = Column[float | None]("cost", lambda _: None, text=money, is_optional=True)
    assert [heading.label for heading in build_table("t", [SECONDS, usd], [1.0]).headings] == ["billed"]
