"""Statement in a report that its group's budget ended it."""

from __future__ import annotations

from dataclasses import replace

from mlflow.entities import Run

from reports.model.blocks import Text
from reports.model.report import Report
from tracking.budgets.budget_tag import end_sentence, read_budget_end


def with_budget_end(report: Report, parent: Run | None) -> Report:
    """Return the report of a group with what its budget left undone. `parent` is the group's run."""
    end = read_budget_end(parent.data.tags) if parent else None
    if end is None:
        return report
    text = Text(end_sentence(end), "strong")
    figures = {
        "max_usd": end.budget.max_usd,
        "max_billable_seconds": end.budget.max_billable_seconds,
        "spent_billable_instance_seconds": end.spent.seconds,
        "spent_usd": end.spent.usd,
        "jobs_not_started": end.not_started,
    }
    return replace(
        report,
        answer=(*report.answer, text),
        terminal=(*report.terminal, text),
        markdown=(*report.markdown, text),
        summary={**report.summary, "budget_end": figures},
    )
