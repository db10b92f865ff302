"""A report as Markdown and JSON, as metrics of its MLflow run, and its answer in the run's name.

MLflow groups charts by the part of a metric's name before the last `/`: one section per figure, one chart per arm.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from reports.model.report import Block, Command, Items, Report, Table, Text
from tracking.groups.plan_file import json_value
from training.contract.plain_text import without_markup

MAX_LABELS = 50
"""Largest number of arms with metrics; a section with more charts would be unreadable."""
_MAX_CHARACTERS = 150
"""Length at which an arm's label is cut in a metric's name; MLflow allows 250 characters for the whole name."""
_SUFFIXES = ("", " low", " high")
"""Suffixes of an interval's metrics."""


def summary(report: Report) -> dict[str, Any]:
    """Return the summary as strict JSON values, including the report's missing data."""
    return {**json_value(report.summary), "missing": list(report.missing)}


def summary_text(report: Report) -> str:
    return json.dumps(summary(report), indent=1, ensure_ascii=False)


def run_metrics(report: Report) -> dict[str, float]:
    """Return the finite figures, by metric names that MLflow accepts."""
    labels = list(dict.fromkeys(metric.label for metric in report.metrics if metric.label))[:MAX_LABELS]
    names = {"": "", **{label: f"/{name}" for label, name in metric_labels(labels).items()}}
    values: dict[str, float] = {}
    for metric in report.metrics:
        if metric.label in names:
            ends = (metric.value, *(metric.interval or ()))
            values |= {
                f"{metric.name}{names[metric.label]}{suffix}": end for suffix, end in zip(_SUFFIXES, ends, strict=False)
            }
    return {name: value for name, value in values.items() if math.isfinite(value)}


def metric_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return each label in a form for metric names: letters, digits, `_`, `-`, `.` and single spaces.

    This is the rule of `mlflow.utils.validation`, without the colon, which MLflow allows only on some systems. The
    results differ even in databases that ignore case, and after the suffix of an interval's end is added.
    """
    names: dict[str, str] = {}
    used: set[str] = set()
    for label in labels:
        text = " ".join(re.sub(r"[^\w.\-]+", " ", label.replace("×", "x")).split())
        # A name that consists of dots would be a folder.
        plain, number = text[:_MAX_CHARACTERS].strip(" .") or "unnamed", 1
        name = plain
        while used & (variants := {f"{name}{suffix}".casefold() for suffix in _SUFFIXES}):
            number += 1
            name = f"{plain} {number}"
        used |= variants
        names[label] = name
    return names


def name_with_answer(name: str, report: Report) -> str:
    """Return a run's name with the report's short answer in front.

    The answer comes first because MLflow's table of runs shows about 20 characters.
    """
    return f"{report.short_answer} ({name})"


def is_ours(name: str, current: str) -> bool:
    """Return True if a run still has its original `name`, with or without an answer; False if it was renamed."""
    return current == name or current.endswith(f" ({name})")


PAGE = "The full report is the artifact `report/report.html`."


def markdown(report: Report) -> str:
    """Return the headline, the main tables and the remarks."""
    parts = [f"**{without_markup(report.headline)}**", *filter(None, map(_block, report.brief)), PAGE]
    return "\n\n".join([*parts, *map(without_markup, report.missing)]) + "\n"


def _block(block: Block) -> str:
    """Return a block as Markdown; empty for a block that only the page shows."""
    if isinstance(block, Text):
        return without_markup(block.text)
    if isinstance(block, Command):
        return "\n".join(["```", block.command.replace("```", "'''"), "```"])
    if isinstance(block, Items):
        return "\n".join(_item(item.label, item.outcome, [each.text for each in item.texts]) for item in block.items)
    return _table(block) if isinstance(block, Table) else ""


def _item(label: str, outcome: str, texts: Iterable[str]) -> str:
    return f"- {without_markup(label)}: *{outcome}*. {without_markup(' '.join(texts))}"


def _table(table: Table) -> str:
    rules = ["---:" if heading.kind == "number" and at else "---" for at, heading in enumerate(table.headings)]
    heads = _row(heading.title for heading in table.headings)
    rows = [_row(cell.text for cell in row.cells) for row in table.rows]
    return "\n".join([heads, "| " + " | ".join(rules) + " |", *rows])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(without_markup, cells)) + " |"
