"""Test the order of table cells."""

from __future__ import annotations

import pytest

from reports.model.report import leading_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12,300", 12300.0),
        ("1,234.5", 1234.5),
        ("−4.2 %", -4.2),
        ("+25 %", 25.0),
        ("5.1e-5", 5.1e-5),
        ("≥ 256", 256.0),
        ("16, 32", 16.0),
        ("2 of 3", 2.0),
        ("0.450", 0.45),
        ("–", None),
        ("∞", None),
        ("base", None),
        ("8bit", None),
        ("", None),
    ],
)
def test_a_cell_sorts_by_the_number_it_begins_with(text: str, value: float | None) -> None:
    assert leading_number(text) == value
