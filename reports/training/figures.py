"""The table of a training's figures."""

from __future__ import annotations

from reports.comparison.columns import columns
from reports.comparison.comparison import Comparison
from reports.model.numbers import NONE
from reports.model.table import Cell, Heading, Row, Table

_ABOUT_ARMS = ("arm", "repeats", "failed", "stopped")
"""Columns of a comparison that say nothing about a single training."""
_NAMES = {
    "batch": "batch size",
    "steady": "steady rate",
    "end to end": "end-to-end rate",
    "training": "steady training",
    "billable": "billable",
}
"""Names of figures that have another one as a narrow column."""


def figures_table(comparison: Comparison) -> Table | None:
    """Return the table with a row per figure; None without any."""
    [arm] = comparison.arms
    figures = [column for column in columns(comparison) if column.label not in _ABOUT_ARMS]
    rows = [(_NAMES.get(each.label, each.label), each.value(arm), each.unit) for each in figures]
    known = [(name, f"{value} {unit}".strip()) for name, value, unit in rows if value != NONE]
    cells = [Row((Cell(text=name), Cell(text=value))) for name, value in known]
    headings = (Heading(label="figure", head="figure", kind="text"), Heading(label="value", head="value"))
    return Table(name="The training", headings=headings, rows=tuple(cells), is_sortable=False) if cells else None
