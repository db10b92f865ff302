"""The repeats of a sweep's winner and its controls, as a comparison. Pure."""

from __future__ import annotations

from typing import Any

import pandas as pd

from judging.design import Design
from reports.comparison.comparison import Comparison, compare

ROLE = "confirmation"


def repeat_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the repeats in a table from `job_tables.jobs`, numbered from 0 as in any comparison.

    In a sweep, number 0 is the winning trial, which does not count.
    """
    if "role" not in table.columns:
        return table[:0]
    rows = table[table["role"] == ROLE]
    return rows.assign(repeat=[_previous(each) for each in rows["repeat"]]) if "repeat" in rows else rows


def confirmation_of(table: pd.DataFrame, group: str, design: Design | None) -> Comparison | None:
    """Return the comparison of the repeated settings; None if no setting was repeated.

    With a `design`, the repeats ran in waves and are judged by its looks.
    """
    rows = repeat_rows(table)
    return compare(rows, group, design=design) if len(rows) else None


def _previous(number: Any) -> Any:
    return str(int(number) - 1) if isinstance(number, str) and number.isdecimal() and int(number) else number
