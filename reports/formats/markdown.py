"""A report as Markdown, for the description of an MLflow run."""

from __future__ import annotations

from collections.abc import Iterable

from reports.model.report import Block, Command, Items, Report, Sentences, Table, Text
from training.contract.plain_text import without_markup

PAGE = "The full report is the artifact `report/report.html`."


def markdown(report: Report) -> str:
    """Return the headline, the main tables and the remarks."""
    parts = [f"**{without_markup(report.headline)}**", *filter(None, map(_block, report.markdown)), PAGE]
    return "\n\n".join([*parts, *([_bullets(report.missing)] if report.missing else [])]) + "\n"


def _block(block: Block) -> str:
    """Return a block as Markdown; empty for a block that only the page shows."""
    if isinstance(block, Text):
        return without_markup(block.text)
    if isinstance(block, Sentences):
        return _bullets(block.sentences)
    if isinstance(block, Command):
        return "\n".join(["```", block.command.replace("```", "'''"), "```"])
    if isinstance(block, Items):
        return "\n".join(_item(item.label, item.outcome, [each.text for each in item.texts]) for item in block.items)
    return _table(block) if isinstance(block, Table) else ""


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {without_markup(sentence)}" for sentence in sentences)


def _item(label: str, outcome: str, texts: Iterable[str]) -> str:
    return f"- {without_markup(label)}: *{outcome}*. {without_markup(' '.join(texts))}"


def _table(table: Table) -> str:
    rules = ["---:" if heading.kind == "number" and at else "---" for at, heading in enumerate(table.headings)]
    heads = _row(heading.title for heading in table.headings)
    rows = [_row(cell.text for cell in row.cells) for row in table.rows]
    return "\n".join([heads, "| " + " | ".join(rules) + " |", *rows])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(without_markup, cells)) + " |"
