"""The blocks that a report consists of, besides tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from reports.model.table import Table

Style = Literal["plain", "strong", "muted", "small"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True)
class Sentences:
    """Independent sentences, shown as paragraphs, lines or bullet points."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command line to copy."""

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
    """A term with its explanation."""

    term: str
    text: str
    is_code: bool = False
    """True to set the text in a monospaced font."""


@dataclass(frozen=True)
class Definitions:
    """A list of terms with their explanations."""

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
        """The picture."""
        return self.draw_png()

    @cached_property
    def svg(self) -> str:
        """An `<svg>` element with its own title and description, for a page that defines `charts.canvas.theme_css`."""
        return self.draw_svg()


@dataclass(frozen=True)
class Charts:
    """Charts side by side."""

    charts: tuple[Chart, ...]


Block: TypeAlias = Text | Sentences | Command | Items | Definitions | Table | Charts
