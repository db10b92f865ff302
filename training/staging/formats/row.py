"""One row of a data file or data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training.contract.errors import InputError, nearest

Row = tuple[int, list[Any]]
"""Number of the line (in Parquet: of the row) from 1, and the values of the requested columns."""

MAX_COMPARED = 1_000
"""Columns that are compared with a wrong name. Comparing millions takes seconds."""


class MissingColumn(InputError):
    """A column that the data does not have."""


def missing_column(location: str, column: str, known: Sequence[str]) -> MissingColumn:
    """Return the error for a missing column. It lists the existing columns and suggests the nearest."""
    listed = ", ".join(repr(str(name)[:60]) for name in known[:20])
    guess = nearest(column, [str(name) for name in known[:MAX_COMPARED]])
    return MissingColumn(f"{location} has no column {column!r}; it has {listed or 'none'}.{guess}")
