"""Read a report's table and text back from each of its formats."""

from __future__ import annotations

import html
import io
import re

from reports.formats.html import html_page
from reports.formats.terminal import print_report
from reports.formats.text import markdown
from reports.model.report import Report
from reports.model.report import Table as ReportTable

Table = dict[str, dict[str, str]]
"""Cells by arm label and column label."""


def texts_by_title(table: ReportTable) -> list[dict[str, str]]:
    """Return the texts of each row by the titles of the columns."""
    titles = [heading.title for heading in table.headings]
    return [dict(zip(titles, (cell.text for cell in row.cells), strict=True)) for row in table.rows]


def chart_names(report: Report) -> set[str]:
    """Return the names of the charts, which their files have too."""
    return {chart.name for chart in report.charts}


def page_table(report: Report) -> Table:
    """Return the table of settings on the page, without units and small print."""
    rows = [{name.split(", ")[0]: text for name, text in row.items()} for row in page_cells(report, with_small=False)]
    return {row["arm"]: row for row in rows if "arm" in row and "billable" in row}


def page_cells(report: Report, *, with_small: bool = True) -> list[dict[str, str]]:
    """Return the rows of all tables on the page: cells with their small print, by column name."""
    page = html_page(report)
    page = page if with_small else re.sub(r"<small>.*?</small>", "", page, flags=re.S)
    rows = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page, flags=re.S):
        cells = re.findall(r"<td([^>]*)>(.*?)</td>", row, flags=re.S)
        labels = [re.search(r'data-label="([^"]*)"', attributes) for attributes, _ in cells]
        texts = [page_text(report, text) for _, text in cells]
        rows.append({label[1] if label else "": text for label, text in zip(labels, texts, strict=True)})
    return [row for row in rows if row]


def page_text(report: Report, part: str | None = None) -> str:
    """Return the text of the page, or of the markup `part`, on one line."""
    shown = html_page(report) if part is None else part
    return " ".join(html.unescape(re.sub(r"<style.*?</style>|<[^>]+>", " ", shown, flags=re.S)).split())


def markdown_text(report: Report) -> str:
    """Return the Markdown without its escapes."""
    return html.unescape(re.sub(r"\\(.)", r"\1", markdown(report)))


def markdown_table(report: Report) -> Table:
    """Return the table in the Markdown."""
    lines = [line.strip("| ").split(" | ") for line in markdown(report).splitlines() if line.startswith("| ")]
    labels, _, *rows = lines
    names = [markdown_cell(label).split(", ")[0] for label in labels]
    return {
        row[0]: dict(zip(names, row, strict=True)) for row in ([markdown_cell(cell) for cell in row] for row in rows)
    }


def markdown_cell(text: str) -> str:
    """Return a cell without its escapes."""
    return html.unescape(re.sub(r"\\(.)", r"\1", text)).strip()


def terminal_lines(report: Report) -> list[str]:
    """Return the terminal's lines."""
    out = io.StringIO()
    print_report(report, out)
    return out.getvalue().splitlines()


def terminal_text(report: Report) -> str:
    """Return the terminal's text on one line."""
    return " ".join(" ".join(terminal_lines(report)).split())


def terminal_words(report: Report, label: str) -> list[str]:
    """Return the words of an arm's row in the terminal."""
    return next(words for line in terminal_lines(report) if (words := line.split())[:1] == [label])
