"""A report in a terminal. Output that is not a terminal has 100 columns and no colours."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from reports.model.report import Block, Command, Definitions, Item, Items, Report, Table, Text
from training.contract.plain_text import without_control_characters

WIDTH = 100
_OUTCOMES = {"cheaper": "bold green", "not cheaper": "bold red", "inconclusive": "bold yellow"}
_STYLES = {"plain": "", "strong": "bold", "muted": "dim", "small": "dim"}


class PlainConsole(Console):
    """Console that shows all text as it is: without markup, emoji codes and control characters."""

    def __init__(self, file: TextIO | None = None, width: int = WIDTH) -> None:
        """`width` is the number of columns of output that is not a terminal."""
        stream = file or sys.stdout
        super().__init__(
            file=stream, width=None if stream.isatty() else width, markup=False, emoji=False, highlight=False
        )

    def render_str(self, text: str, **options: Any) -> RichText:
        """Return the text for all places where this console is passed a `str`."""
        return super().render_str(without_control_characters(text), **options)


def print_report(report: Report, file: TextIO | None = None) -> None:
    """Print the headline, the main tables and the remarks."""
    print_blocks((Text(report.headline, "strong"), *report.brief, *map(Text, report.missing)), file)


def print_blocks(blocks: Iterable[Block], file: TextIO | None = None, width: int = WIDTH) -> None:
    """Print blocks. `width` is the number of columns of output that is not a terminal."""
    console = PlainConsole(file, width)
    for block in blocks:
        _print_block(console, block)


def _print_block(console: Console, block: Block) -> None:
    if isinstance(block, Text):
        console.print(block.text, style=_STYLES[block.style])
    elif isinstance(block, Command):
        console.print(f"\n  {block.command}\n", soft_wrap=True)
    elif isinstance(block, Items):
        for item in block.items:
            _print_item(console, item)
    elif isinstance(block, Definitions):
        console.print(_rich_definitions(block))
    elif isinstance(block, Table):
        console.print(_rich_table(block, numbers := _arm_numbers(block, console.width)))
        for label, number in numbers.items():
            console.print(f"{number}: {label}")


def _print_item(console: Console, item: Item) -> None:
    if item.outcome:
        outcome = RichText(item.outcome, style=_OUTCOMES.get(item.outcome, "bold"))
        console.print(console.render_str(f"{item.label}: ").append_text(outcome))
    else:
        console.print(item.label, style="bold")
    for each in item.texts:
        console.print(Padding(each.text, (0, 0, 0, 2), expand=False))


def _rich_definitions(block: Definitions) -> RichTable:
    rendered = RichTable.grid(padding=(0, 2, 0, 0))
    rendered.add_column(no_wrap=True, style="bold")
    rendered.add_column(overflow="fold")
    for each in block.definitions:
        rendered.add_row(each.term, each.text)
    return rendered


def _rich_table(table: Table, names: Mapping[str, str]) -> RichTable:
    """Return the table. `names` replaces texts of the first column."""
    rendered = RichTable(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    first, *others = table.headings
    rendered.add_column(first.lines, overflow="fold")
    for heading in others:
        rendered.add_column(heading.lines, justify="left" if heading.kind == "text" else "right", no_wrap=True)
    for row in table.rows:
        label, *texts = (cell.text for cell in row.cells)
        rendered.add_row(names.get(label, label), *texts)
    return rendered


def _arm_numbers(table: Table, width: int) -> dict[str, str]:
    """Return a number for the label of each arm if the table has no room for the labels; empty for other tables."""
    if table.headings[0].label != "arm":
        return {}
    rows = [[heading.head or heading.label for heading in table.headings]]
    rows += [[cell.text for cell in row.cells] for row in table.rows]
    labels, *others = ([line for text in column for line in text.split("\n")] for column in zip(*rows, strict=True))
    needed = sum(max(map(len, lines)) + 1 for lines in (labels, *others)) + 1
    return {row.cells[0].text: str(at) for at, row in enumerate(table.rows, start=1)} if needed > width else {}
