"""Tables: headings, rows and cells, and columns that compute a cell for each subject."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Kind = Literal["number", "text"]
"""Numbers are aligned right, text left."""
Style = Literal["", "settings", "settings trials", "settings trials groups", "jobs"]
"""Layout of a table on the page, see `formats/page.css`."""
Subject = TypeVar("Subject")


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Heading of a column."""

    label: str
    head: str
    """Label and unit on several short lines, for narrow tables."""
    unit: str = ""
    kind: Kind = "number"

    @property
    def title(self) -> str:
        """The label with its unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell."""

    text: str
    detail: str = ""
    """Small print below the text."""
    sort: float | None = None
    """Number to sort by; with None, the cell sorts by its text."""
    url: str | None = None
    """Address that the text links to."""
    badge: str = ""
    """State that colours the text, such as `FAILED`; empty for none."""
    error: str = ""
    """Error message below the text."""
    code: str = ""
    """Monospaced small print below the text, such as an id."""


@dataclass(frozen=True)
class Row:
    """One row."""

    cells: tuple[Cell, ...]
    state: str = ""
    """State of the row's subject, such as `pruned`, by which the page colours it; empty for none."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table. The first cell of a row names the row."""

    name: str
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    style: Style = ""
    is_sortable: bool = True


@dataclass(frozen=True)
class Column(Generic[Subject]):
    """A column of a table that has one row per subject, such as an arm or a trial."""

    label: str
    head: str
    """Label and unit on several short lines, for narrow tables."""
    unit: str
    """Unit of the values, or empty."""
    value: Callable[[Subject], str]
    """Text of the cell: the typical value if there are several."""
    detail: Callable[[Subject], str] = lambda _: ""
    """Small print below the text: the smallest and largest value if they differ."""
    kind: Kind = "number"
    url: Callable[[Subject], str | None] = lambda _: None
    """Address that the cell links to."""

    @property
    def title(self) -> str:
        """The label with its unit."""
        return self._heading.title

    @property
    def _heading(self) -> Heading:
        return Heading(label=self.label, head=self.head, unit=self.unit, kind=self.kind)

    def _cell(self, subject: Subject, is_first: bool) -> Cell:
        text = self.value(subject)
        sort = None if is_first else leading_number(text)
        return Cell(text=text, detail=self.detail(subject), sort=sort, url=self.url(subject))


def build_table(
    name: str,
    columns: Sequence[Column[Subject]],
    subjects: Iterable[Subject],
    *,
    style: Style = "",
    is_sortable: bool = True,
    state: Callable[[Subject], str] = lambda _: "",
) -> Table:
    """Return the table of these columns with one row per subject."""
    return Table(
        name=name,
        headings=tuple(column._heading for column in columns),
        rows=tuple(
            Row(tuple(column._cell(each, at == 0) for at, column in enumerate(columns)), state(each))
            for each in subjects
        ),
        style=style,
        is_sortable=is_sortable,
    )


def texts_by_title(table: Table) -> list[Mapping[str, str]]:
    """Return the texts of each row by the titles of the columns."""
    titles = [heading.title for heading in table.headings]
    return [dict(zip(titles, (cell.text for cell in row.cells), strict=True)) for row in table.rows]


def leading_number(text: str) -> float | None:
    """Return the number that a text begins with, or None: `12,300` -> 12300, `−4.2 %` -> -4.2."""
    match = re.match(r"[≥+]? ?([-−]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e-?\d+)?)(?![\w.])", text)
    return float(match[1].replace("−", "-") + match[2].replace(",", "")) if match else None
