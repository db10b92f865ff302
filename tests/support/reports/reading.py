"""Read a report's table and text back from each of its formats."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from statistics import median
from typing import Any

from reports.formats.figures import summary
from reports.formats.html import html_page
from reports.formats.markdown import markdown
from reports.formats.terminal import print_report
from reports.model.report import Report

Table = dict[str, dict[str, str]]
"""Cells by arm label and column label."""


class _Cells(HTMLParser):
    """Rows of the tables whose cells name their column, without the small print below a value."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = []
        self._label: str | None = None
        self._is_small = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append({})
        elif tag in ("td", "th"):
            label = dict(attrs).get("data-label")
            self._label = label.split(", ")[0] if label else None
            if self._label:
                self.rows[-1][self._label] = ""
        self._is_small = self._is_small or tag == "small"

    def handle_endtag(self, tag: str) -> None:
        self._label = None if tag in ("td", "th") else self._label
        self._is_small = self._is_small and tag != "small"

    def handle_data(self, data: str) -> None:
        if self._label and not self._is_small:
            self.rows[-1][self._label] += data.strip()


def chart_names(report: Report) -> set[str]:
    """Return the names of the charts, which their files have too."""
    return {chart.name for chart in report.charts}


def page_table(report: Report) -> Table:
    """Return the table of settings on the page."""
    return {row["arm"]: row for row in _Cells(html_page(report)).rows if "arm" in row and "billable" in row}


def page_cells(report: Report) -> list[dict[str, str]]:
    """Return the rows of all tables on the page: cells with their small print, by column name."""
    rows = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html_page(report), flags=re.S):
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


def csv_medians(report: Report) -> dict[str, dict[str, float]]:
    """Return each arm's medians of the numbers in the job file, over the jobs that its figures come from."""
    jobs = list(csv.DictReader(io.StringIO(report.rows_csv)))
    medians = {}
    for arm in summary(report)["arms"]:
        mine = [job for job in jobs if _counts(job, arm)]
        for job in mine:
            setup = _number(job["time_compile_seconds"] or "0") + _number(job["time_warmup_seconds"])
            job["setup_seconds"] = str(setup)
        names = {name for job in mine for name in job}
        numbers = {name: [v for job in mine if math.isfinite(v := _number(job[name]))] for name in names}
        medians[arm["label"]] = {name: median(values) for name, values in numbers.items() if values}
    return medians


def json_medians(report: Report, label: str) -> Mapping[str, float]:
    """Return an arm's medians in the summary."""
    arm: dict[str, Any] = next(arm for arm in summary(report)["arms"] if arm["label"] == label)
    medians = {name: summary["median"] for name, summary in arm["numbers"].items()}
    return medians | ({"setup_seconds": arm["setup_seconds"]["median"]} if arm["setup_seconds"] else {})


def _counts(job: Mapping[str, str], arm: Mapping[str, Any]) -> bool:
    return (job["arm"], job["status"], job["cache_state"]) == (arm["label"], "FINISHED", arm["cache_state"])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
