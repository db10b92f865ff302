"""The model of a report: sections of texts, tables and charts, for all output formats.

A report consists of blocks. A table is built from columns. A column declares once what every format shows of it: title
and unit, and how to compute the number and the text of a cell from the row's subject, such as an arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from reports.model.numbers import NONE, plain_number

TextStyle = Literal["plain", "strong", "muted", "small"]


@dataclass(frozen=True)
class Text:
    text: str
    style: TextStyle = "plain"


@dataclass(frozen=True)
class Command:
    caption: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A named thing, such as an arm, with its outcome and the text about it."""

    label: str
    outcome: str = ""
    """A verdict, shown as a badge; empty if there is no verdict."""
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Items:
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Definition:
    term: str
    text: str


@dataclass(frozen=True)
class Definitions:
    definitions: tuple[Definition, ...]


@dataclass(frozen=True)
class Chart:
    """One chart as a picture and as markup. It is drawn only for the formats that show it."""

    name: str
    """File name without its extension; also the prefix of the ids inside the SVG."""
    title: str
    draw_png: Callable[[], bytes]
    draw_svg: Callable[[], str]

    @cached_property
    def png(self) -> bytes:
        return self.draw_png()

    @cached_property
    def svg(self) -> str:
        """An `<svg>` element with its own title and description, for a page that defines `charts.canvas.theme_css`."""
        return self.draw_svg()


@dataclass(frozen=True)
class Charts:
    charts: tuple[Chart, ...]


TableStyle = Literal["", "settings", "settings trials", "settings trials groups", "jobs"]
"""Layout of a table on the page, see `formats/page.css`."""
Kind = Literal["number", "text"]
"""Numbers are aligned right, text left."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    text: str
    number: float | None = None
    """Value of the text, which MLflow stores. None for a text that is no number."""
    detail: str = ""
    """Small print below the text."""
    url: str | None = None
    """Address that the text links to."""
    badge: str = ""
    """State that colours the text, such as `FAILED`; empty for none."""
    error: str = ""
    """Error message below the text."""
    code: str = ""
    """Monospaced small print below the text, such as an id."""


Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Column(Generic[Subject]):
    """Declaration of a column: its title, its unit, and the number and the text of each cell."""

    label: str
    value: Callable[[Subject], Cell | float | str | None]
    """Number or text for a subject, such as an arm; a cell if it has small print, a link or a number of its own. None
    if the value is missing."""
    head: str = field(default="", kw_only=True)
    """Label and unit on several short lines, for narrow tables; empty for one line for each word."""
    unit: str = field(default="", kw_only=True)
    kind: Kind = field(default="number", kw_only=True)
    text: Callable[[float], str] = field(default=plain_number, kw_only=True)
    """Format of a number."""
    is_optional: bool = field(default=False, kw_only=True)
    """True to leave the column out of a table in which no row has a value."""
    metric: str = field(default="", kw_only=True)
    """Metric of the report's MLflow run that stores the numbers; empty for none."""
    name: str = field(default="", kw_only=True)
    """Label outside of a table with a row per arm, where it needs more words; empty for the label."""

    @property
    def title(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def lines(self) -> str:
        return self.head or "\n".join([*self.label.split(), *([self.unit] if self.unit else [])])

    def cell(self, subject: Subject) -> Cell:
        value = self.value(subject)
        if isinstance(value, Cell):
            return value
        return Cell(text=value) if isinstance(value, str) else number_cell(value, self.text)


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    state: str = ""
    """State of the row's subject, such as `pruned`, by which the page colours it; empty for none."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table. The first cell of a row names the row."""

    name: str
    headings: tuple[Column[Any], ...]
    rows: tuple[Row, ...]
    style: TableStyle = ""


Block: TypeAlias = Text | Command | Items | Definitions | Table | Charts


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure for comparing reports with each other."""

    name: str
    label: str = ""
    """Arm or compiler that the figure belongs to; empty for a figure of the whole report."""
    value: float
    """NaN if unknown."""
    interval: tuple[float, float] | None = None
    """Ends of its 95 % interval, or None."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a report, for all output formats.

    The page shows `answer` and `sections`, the terminal and Markdown the fewer blocks of `brief`.
    """

    group: str
    """Id of the group, or ids of the groups, that the jobs belong to."""
    title: str
    headline: str
    """The answer in one sentence."""
    answer: tuple[Block, ...] = ()
    """Blocks right below the headline on the page."""
    sections: tuple[Section, ...] = ()
    brief: tuple[Block, ...] = ()
    """Blocks below the headline in the terminal and in Markdown, the main table first."""
    missing: tuple[str, ...] = ()
    """One sentence for each kind of data that the report lacks."""
    summary: Mapping[str, Any]
    """Numbers and verdicts for `summary.json`."""
    metrics: tuple[Metric, ...] = ()
    short_answer: str = ""
    """The answer in a few words, for a run's name."""
    results: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of the arms with a result that `--fail-on` may name; see `reports.comparison.report`."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """Verdict by run id, as MLflow's table of runs shows it."""
    comparison_table: Table | None = None
    """Table that MLflow's table view shows."""
    rows_csv: str
    """One line per job, or per group for an overview."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        blocks = [block for section in self.sections for block in section.blocks]
        return tuple(chart for block in blocks if isinstance(block, Charts) for chart in block.charts)


def number_cell(value: float | None, text: Callable[[float], str] = plain_number, detail: str = "") -> Cell:
    if value is None or math.isnan(value):
        return Cell(text=NONE, detail=detail)
    return Cell(text=text(value), number=value if math.isfinite(value) else None, detail=detail)


def build_table(
    name: str,
    columns: Sequence[Column[Subject]],
    subjects: Iterable[Subject],
    *,
    style: TableStyle = "",
    state: Callable[[Subject], str] = lambda _: "",
) -> Table:
    """Return the table with one row per subject, without optional columns that have no value. The first cell names the
    row."""
    subjects = list(subjects)
    cells = {column: [column.cell(each) for each in subjects] for column in columns}
    shown = [each for each in columns if not each.is_optional or any(cell.text != NONE for cell in cells[each])]
    rows = (Row(tuple(cells[each][at] for each in shown), state(subject)) for at, subject in enumerate(subjects))
    return Table(name=name, headings=tuple(shown), rows=tuple(rows), style=style)


def values_by_title(table: Table) -> list[Mapping[str, float | str]]:
    """Return the number of each cell, to six digits, or else its text, by the titles of the columns."""

    def value(cell: Cell) -> float | str:
        return cell.text if cell.number is None else float(f"{cell.number:.6g}")

    titles = [heading.title for heading in table.headings]
    return [dict(zip(titles, map(value, row.cells), strict=True)) for row in table.rows]


def measured_section(*definitions: Definition) -> Section:
    """Return the section with these definitions, and those of the figures that all reports show."""
    return Section("How each number is measured", (Definitions((*definitions, *_MEASURED)),))


_MEASURED = (
    Definition(
        "Billable seconds",
        "Wall time from the start of the download to the end of the upload, as the service bills it, times the "
        "instances. Provisioning is not included.",
    ),
    Definition(
        "Steady samples/s",
        "Samples of all devices per second after the warm-up. Data loading counts; evaluation and checkpoints do not.",
    ),
    Definition("All others", "docs/measuring.md explains every figure."),
)
