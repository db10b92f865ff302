"""Checks of a group's arms, from the tables of their jobs: sentences, a section of the report, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from judging.equivalence import AS_STOCK, DIFFERENT, LOSS, NORM, NOT_CHECKED, SAME, Answer, Finding, answer_of, judge
from reports.model.numbers import NONE, figure, joined, money
from reports.model.report import Cell, Column, Section, Text, build_table
from tracking.groups.planned_job import CHECK
from tracking.recorded.arms import BILLABLE, DOLLARS
from tracking.recorded.recorded_job import Job, job_of
from training.contract.failures import Failure
from training.job.checking import TABLE

CHECKS_FILE = "checks.json"
"""Artifact of a group's run: labels of the arms of each check, by its job's name, and why others are not checked."""
TABLE_FILE = f"tables/{TABLE}"
"""Artifact of a check's run with its numbers."""
NOT_SHOWN = (
    "A check compares the losses and gradients of a few steps. It cannot show an effect of dropout, which it switches "
    "off, of the schedule after these steps, of the shapes of later batches, or of an overflow. On a CPU, it keeps "
    "three layers of a large model. The quality is judged by whole trainings, as always. See docs/check.md."
)
_BADGES: Mapping[Answer, str] = {SAME: "FINISHED", AS_STOCK: "FINISHED", DIFFERENT: "FAILED", NOT_CHECKED: "KILLED"}


@dataclass(frozen=True, kw_only=True)
class ArmCheck:
    """Findings of one check, for the arms that share it."""

    arms: Sequence[str]
    findings: Sequence[Finding]
    """One for each setting, or a single one without a setting: why the arms were not checked."""
    job: Job | None = None

    @property
    def answer(self) -> Answer:
        return answer_of(self.findings)

    @property
    def text(self) -> str:
        """The answer, such as `no difference (compiler inductor: loss 1.2e-07 at step 4)`."""
        of = {answer: [each for each in self.findings if each.answer == answer] for answer in _BADGES}
        largest = sorted(of[SAME], key=lambda each: -each.size)[:1]
        shown = [*(of[DIFFERENT][:1] or largest), *of[AS_STOCK], *of[NOT_CHECKED]]
        return "; ".join(
            f"{each.answer} ({': '.join(filter(None, (_setting(each), _detail(each))))})" for each in shown
        )

    @property
    def sentence(self) -> str:
        return f"{joined([f'“{label}”' for label in self.arms])}: {self.text}."


def _setting(finding: Finding) -> str:
    return f"{finding.name} {finding.value}".strip()


def _detail(finding: Finding) -> str:
    """Return a finding's difference with its place, or the reason for having none."""
    if finding.answer == NOT_CHECKED:
        return finding.reason.rstrip(".")
    if finding.name == "precision" and finding.size:
        return f"error {figure(finding.size)} times that of stock torch"
    if not finding.size:  # the text about an option of the optimizer has none
        return (
            f"{finding.quantity} at step {finding.step}" if finding.answer == DIFFERENT else "equal to the last digit"
        )
    layer = "" if finding.quantity in (LOSS, NORM) else "gradient of "
    differs = " differs by" if finding.answer == DIFFERENT else ""
    return f"{layer}{finding.quantity}{differs} {finding.size:.1e} at step {finding.step}"


def checks_of(
    table: pd.DataFrame, document: Mapping[str, Any], read: Callable[[Job], Mapping[str, Any]]
) -> tuple[ArmCheck, ...]:
    """Return the checks in a table from `job_tables.jobs`, given their `CHECKS_FILE`. `read` returns a `TABLE_FILE`."""
    jobs = {job.name: job for job in map(job_of, table.to_dict("records")) if job.text.get("role") == CHECK}
    arms = {name: [job.arm.removesuffix(f", {CHECK}")] for name, job in jobs.items()} | document.get("arms", {})
    checks = [_check(labels, jobs.get(name), read) for name, labels in arms.items()]
    return (*checks, *(_not_checked([arm], reason) for arm, reason in document.get("not_checked", {}).items()))


def _check(arms: Sequence[str], job: Job | None, read: Callable[[Job], Mapping[str, Any]]) -> ArmCheck:
    if job is None or not (job.failed or job.succeeded):
        return _not_checked(arms, "its check did not run to its end", job)
    if job.failed:
        failure = Failure(job.text.get("failure_class") or "Error", job.text.get("failure_message") or "")
        return _not_checked(arms, f"its check failed ({failure.text.rstrip('.')})", job)
    content = read(job)
    rows = [dict(zip(content["columns"], row, strict=True)) for row in content.get("data", ())]
    if not rows:
        return _not_checked(arms, "the numbers of its check are missing", job)
    return ArmCheck(arms=arms, findings=judge(rows), job=job)


def _not_checked(arms: Sequence[str], reason: str, job: Job | None = None) -> ArmCheck:
    return ArmCheck(arms=arms, findings=[Finding(name="", value="", answer=NOT_CHECKED, reason=reason)], job=job)


def checks_answer(checks: Sequence[ArmCheck]) -> tuple[str, str]:
    """Return the answer of a group that has only checks, in a sentence and in a few words."""
    if different := [each.sentence for each in checks if each.answer == DIFFERENT]:
        return " ".join(different), DIFFERENT
    if equal := [f"“{label}”" for each in checks if each.answer in (SAME, AS_STOCK) for label in each.arms]:
        verb = "computes" if len(equal) == 1 else "compute"
        return f"In five steps, {joined(equal)} {verb} the same as plain PyTorch.", SAME
    return "No arm was checked to the end.", NOT_CHECKED


def check_sections(checks: Sequence[ArmCheck]) -> tuple[Section, ...]:
    """Return the section with a row for each checked arm and setting; empty without checks."""
    rows = [(check, finding) for check in checks for finding in check.findings]

    def cost(column: str) -> Callable[[_Row], float | None]:
        """Return the cost of a check, which only its first row shows."""
        return lambda row: row[0].job.number(column) if row[0].job and row[1] is row[0].findings[0] else None

    columns: list[Column[_Row]] = [
        Column("arm", lambda row: ", ".join(row[0].arms), kind="text"),
        Column("setting", lambda row: _setting(row[1]) or NONE, kind="text"),
        Column("answer", lambda row: Cell(text=row[1].answer, badge=_BADGES[row[1].answer]), kind="text"),
        Column("largest difference", lambda row: _detail(row[1]), kind="text"),
        Column("billable", cost(BILLABLE), unit="s"),
        Column("cost", cost(DOLLARS.column), unit="USD", text=money, is_optional=True),
    ]
    table = build_table("The checks", columns, rows)
    return (Section("Checked before the trainings", (table, Text(NOT_SHOWN, "small"))),) if checks else ()


_Row = tuple[ArmCheck, Finding]


def check_fields(checks: Sequence[ArmCheck]) -> list[dict[str, Any]]:
    """Return the findings by arm for `summary.json`."""
    return [
        {
            "arm": label,
            "answer": each.answer,
            "job": each.job.name if each.job else None,
            "billable_instance_seconds": each.job.number(BILLABLE) if each.job else None,
            "findings": [
                {"setting" if name == "name" else name: value for name, value in asdict(finding).items()}
                for finding in each.findings
            ],
        }
        for each in checks
        for label in each.arms
    ]
