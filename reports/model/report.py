"""The model of a report: sections of texts, tables and charts, for all output formats.

A report consists of blocks. A table is built from columns that compute a cell for each subject, such as an arm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar

TextStyle = Literal["plain", "strong", "muted", "small"]


@dataclass(frozen=True)
class Text:
    text: str
    style: TextStyle = "plain"


@dataclass(frozen=True)
class Sentences:
    """Independent sentences, shown as paragraphs, lines or bullet points."""

    sentences: tuple[str, ...]


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
    """A block that lists items, each with a name and a text."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class Definition:
    term: str
    text: str
    is_code: bool = False
    """True to set the text in a monospaced font."""


@dataclass(frozen=True)
class Definitions:
    definitions: tuple[Definition, ...]
    is_card: bool = False
    """True for results, which the page shows on a separate card."""


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
class Heading:
    label: str
    head: str = ""
    """Label and unit on several short lines, for narrow tables; empty for the label."""
    unit: str = ""
    kind: Kind = "number"

    @property
    def title(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label


@dataclass(frozen=True, kw_only=True)
class Cell:
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
    cells: tuple[Cell, ...]
    state: str = ""
    """State of the row's subject, such as `pruned`, by which the page colours it; empty for none."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table. The first cell of a row names the row."""

    name: str
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    style: TableStyle = ""
    is_sortable: bool = True


Block: TypeAlias = Text | Sentences | Command | Items | Definitions | Table | Charts


@dataclass(frozen=True)
class Section:
    """A part of a report under a heading."""

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


@dataclass(frozen=True)
class ShortAnswer:
    """The answer, short enough for a run's name."""

    setting: str
    """Setting that the answer is about; may be empty."""
    text: str
    """Text after the setting, such as ` 20 % cheaper`."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a report, for all output formats.

    The page shows `answer` and `sections`. The terminal and Markdown have separate lists with fewer blocks, where the
    main table comes right after the headline.
    """

    group: str
    """Id of the group, or ids of the groups, that the jobs belong to."""
    title: str
    headline: str
    """The answer in one sentence."""
    answer: tuple[Block, ...] = ()
    """Blocks right below the headline on the page."""
    sections: tuple[Section, ...] = ()
    terminal: tuple[Block, ...] = ()
    markdown: tuple[Block, ...] = ()
    missing: tuple[str, ...] = ()
    """One sentence for each kind of data that the report lacks."""
    summary: Mapping[str, Any]
    """Numbers and verdicts for `summary.json`."""
    metrics: tuple[Metric, ...] = ()
    short_answer: ShortAnswer = ShortAnswer("", "")
    results: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of the arms with a result that `--fail-on` may name; see `reports.comparison.report`."""
    rules: int | None = None
    """Version of the rules that judged a comparison."""
    comparison_table: Table | None = None
    """Table that MLflow's table view shows."""
    rows_csv: str
    """One line per job, or per group for an overview."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        blocks = [block for section in self.sections for block in section.blocks]
        return tuple(chart for block in blocks if isinstance(block, Charts) for chart in block.charts)


Subject = TypeVar("Subject")


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


def build_table(
    name: str,
    columns: Sequence[Column[Subject]],
    subjects: Iterable[Subject],
    *,
    style: TableStyle = "",
    is_sortable: bool = True,
    state: Callable[[Subject], str] = lambda _: "",
) -> Table:
    """Return the table with one row per subject. The first cell names the row and sorts by its text."""

    def cells(subject: Subject) -> Iterator[Cell]:
        for at, column in enumerate(columns):
            text = column.value(subject)
            sort = leading_number(text) if at else None
            yield Cell(text=text, detail=column.detail(subject), sort=sort, url=column.url(subject))

    return Table(
        name=name,
        headings=tuple(Heading(label=c.label, head=c.head, unit=c.unit, kind=c.kind) for c in columns),
        rows=tuple(Row(tuple(cells(each)), state(each)) for each in subjects),
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
