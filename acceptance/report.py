"""Report of an acceptance, in Markdown and JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from acceptance.checks import Check
from acceptance.costs import StepCost
from acceptance.expectations import Difference, expectations

LONGEST_VALUE = 400
"""Characters of a value in a table."""


@dataclass(kw_only=True)
class StepResult:
    """Outcome of one step."""

    name: str
    title: str
    error: str = ""
    """Reason why the step could not be completed. Empty: it was."""
    seconds: float = 0.0
    observed: Mapping[str, Any] = field(default_factory=dict)
    differences: Sequence[Difference] = ()


@dataclass(kw_only=True)
class Report:
    """Everything that the report shows."""

    id: str
    date: str
    region: str
    account: str
    checks: Sequence[Check]
    costs: Sequence[StepCost]
    results: list[StepResult] = field(default_factory=list)
    left: Sequence[str] = ()
    """Sentences about jobs and endpoints that still run and are billed."""
    lasting: Sequence[str] = ()
    """Sentences about everything that every acceptance leaves."""
    interrupted: bool = False

    @property
    def has_passed(self) -> bool:
        """True if every step was completed without a difference, and nothing is left that is billed."""
        if self.interrupted or self.left:
            return False
        return not any(result.error or result.differences for result in self.results)


def json_text(report: Report) -> str:
    """Return the report as JSON, with every observed value."""
    return json.dumps({"passed": report.has_passed, **asdict(report)}, indent=1, ensure_ascii=False, default=str)


def markdown(report: Report) -> str:
    """Return the report as Markdown: the outcome first, then the differences, then what was observed."""
    sections = [
        f"# Acceptance {report.id} on AWS, {report.date}",
        f"Account {report.account}, region {report.region}. {_outcome(report)}",
        "## Steps",
        _table(("step", "expectations", "differences", "seconds", "outcome"), map(_step_row, report.results)),
        "## Differences from the simulated account",
        _differences(report),
        "## Left in the account",
        _list([*report.left, *report.lasting]),
        "## Checks",
        _table(("check", "outcome", "detail"), [(each.name, each.outcome, each.detail) for each in report.checks]),
        "## Most that the steps could cost",
        _table(("step", "work", "USD"), [(each.name, each.work, _usd(each)) for each in report.costs]),
        "## Observed values",
        *(part for result in report.results for part in (f"### {result.name}", _values(result.observed))),
    ]
    return "\n\n".join(sections) + "\n"


def _outcome(report: Report) -> str:
    if report.has_passed:
        return "Every step behaves like the simulated account."
    failed = sum(bool(result.error) for result in report.results)
    count = sum(len(result.differences) for result in report.results)
    text = f"{count} difference{'s' * (count != 1)}, {failed} step{'s' * (failed != 1)} not completed."
    return text + (" The acceptance was interrupted." if report.interrupted else "")


def _step_row(result: StepResult) -> tuple[str, ...]:
    count = len(expectations()[result.name])
    outcome = result.error or ("as expected" if not result.differences else "differs")
    return (result.name, str(count), str(len(result.differences)), f"{result.seconds:.0f}", outcome)


def _differences(report: Report) -> str:
    rows = [
        (each.step, each.value, each.expected, str(each.observed), each.source)
        for result in report.results
        for each in result.differences
    ]
    return _table(("step", "value", "expected", "observed", "source"), rows) if rows else "None."


def _values(values: Mapping[str, Any]) -> str:
    return _table(("value", "observed"), [(name, str(value)) for name, value in values.items()]) if values else "None."


def _usd(cost: StepCost) -> str:
    return "unknown" if cost.amount.usd is None else f"{cost.amount.usd:.4f}"


def _list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences) or "Nothing."


def _table(header: Sequence[str], rows: Any) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    short = text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
    return " ".join(short.replace("|", "\\|").split())
