"""Checks of a group's arms: what their jobs' tables show, in sentences and as a section of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pandas as pd

from judging.equivalence import AS_STOCK, DIFFERENT, LOSS, NORM, NOT_CHECKED, SAME, Answer, Finding, answer_of, judge
from reports.model.numbers import NONE, capitalized, figure, joined, money
from reports.model.report import Block, Cell, Column, Item, Items, Section, Text, build_table
from tracking.groups.planned_job import CHECK
from tracking.recorded.arms import BILLABLE, DOLLARS
from tracking.recorded.recorded_job import Job, job_of
from training.contract.failures import Failure

CHECK_FILE = "tables/check.json"
"""Artifact of a check's run with its numbers."""
_NOT_SHOWN = (
    "A check trains a few steps with each setting, on the same weights, rows and random numbers, and compares losses "
    "and gradients. It cannot show an effect of dropout, which it switches off, of the schedule after its steps, of "
    "the shapes of later batches, or of an overflow. The quality is judged by whole trainings, as always. "
    "docs/check.md explains the limits of rounding."
)
_BADGES: Mapping[Answer, str] = {SAME: "FINISHED", AS_STOCK: "FINISHED", DIFFERENT: "FAILED", NOT_CHECKED: "KILLED"}


@dataclass(frozen=True, kw_only=True)
class ArmCheck:
    """What a check shows about arms with the same settings."""

    arms: tuple[str, ...]
    findings: tuple[Finding, ...]
    """One for each setting, or a single one without a setting: why the arms were not checked."""
    job: Job | None = None
    steps: int = 0

    @property
    def answer(self) -> Answer:
        return answer_of(self.findings)

    @property
    def different(self) -> list[Finding]:
        return [each for each in self.findings if each.answer == DIFFERENT]

    @property
    def labels(self) -> str:
        return joined([f"“{label}”" for label in self.arms])

    @property
    def text(self) -> str:
        """The answer in one line, such as `no difference in 5 steps (largest 5.8e-07, loss at step 4)`."""
        shown = [outcome(each) for each in self.different]
        if (same := [each for each in self.findings if each.answer == SAME]) and not shown:
            largest = max(same, key=lambda each: each.size)
            shown.append(f"{SAME} in {self.steps} steps ({largest_text(largest)})")
        shown += [
            f"{setting(each)} {outcome(each)}".strip()
            for each in self.findings
            if each.answer in (AS_STOCK, NOT_CHECKED)
        ]
        return "; ".join(shown)

    @property
    def billed(self) -> str:
        """The cost of the check, such as `, 48 s billed`; empty without a billing record."""
        seconds = self.job.number(BILLABLE) if self.job else math.nan
        return f", {figure(seconds)} s billed" if seconds > 0 else ""


def setting(finding: Finding) -> str:
    return f"Trainer on {finding.value}" if finding.name == "trainer" else f"{finding.name} {finding.value}".strip()


def quantity(finding: Finding) -> str:
    """Return what was compared. The text about an option of the optimizer has no size."""
    is_layer = finding.size > 0 and finding.quantity not in ("", LOSS, NORM)
    return f"gradient of {finding.quantity}" if is_layer else finding.quantity


def at_step(finding: Finding) -> str:
    return f"at step {finding.step}" if finding.step else "in all steps"


def difference(finding: Finding) -> str:
    """Return what differs and in which setting, such as `loss differs by 3.1e-03 (compiler inductor)`."""
    if not finding.quantity:
        return f"{setting(finding)} has {figure(finding.size)} times the error of stock torch"
    size = f" differs by {finding.size:.1e}" if math.isfinite(finding.size) else " is not finite"
    return f"{quantity(finding)}{size if finding.size else ''} ({setting(finding)})"


def largest_text(finding: Finding) -> str:
    return (
        f"largest {finding.size:.1e}, {quantity(finding)} {at_step(finding)}" if finding.size else "equal to the digit"
    )


def outcome(finding: Finding) -> str:
    """Return the answer about a setting, with its size or its reason."""
    if finding.answer == DIFFERENT:
        return f"{DIFFERENT} {at_step(finding)}: {difference(finding)}"
    reasons = {
        SAME: f" ({largest_text(finding)})",
        AS_STOCK: f" (error {figure(finding.size)} times its error)",
        NOT_CHECKED: f": {finding.reason.rstrip('.')}",
    }
    return finding.answer + reasons[finding.answer]


def checks_of(
    table: pd.DataFrame, document: Mapping[str, Any], read: Callable[[Job], Mapping[str, Any]]
) -> tuple[ArmCheck, ...]:
    """Return the checks of a group, from its table of jobs and its `plan_file.CHECKS_FILE`.

    `read` returns the table `CHECK_FILE` of a job.
    """
    jobs = [job_of(row) for row in table.to_dict("records") if row.get("role") == CHECK]
    by_name = {job.name: job for job in jobs}
    arms = {job.name: [job.arm.removesuffix(f", {CHECK}")] for job in jobs} | dict(document.get("arms", {}))
    checks = [_check(tuple(labels), by_name.get(name), read) for name, labels in arms.items()]
    reasons = dict(document.get("not_checked", {}))
    return (*checks, *(_not_checked((label,), reason) for label, reason in reasons.items()))


def _check(arms: tuple[str, ...], job: Job | None, read: Callable[[Job], Mapping[str, Any]]) -> ArmCheck:
    if job is None or job.unfinished:
        return _not_checked(arms, "its check has not run to its end", job)
    if not job.succeeded:
        failure = Failure(job.text.get("failure_class") or "Error", job.text.get("failure_message") or "")
        return _not_checked(arms, f"its check failed ({failure.text.rstrip('.')})", job)
    content = read(job)
    rows = [dict(zip(content["columns"], row, strict=True)) for row in content.get("data", ())]
    if not (findings := judge(rows)):
        return _not_checked(arms, "the numbers of its check are missing", job)
    return ArmCheck(arms=arms, findings=tuple(findings), job=job, steps=max(int(row["step"]) for row in rows))


def _not_checked(arms: tuple[str, ...], reason: str, job: Job | None = None) -> ArmCheck:
    return ArmCheck(arms=arms, findings=(Finding(name="", value="", answer=NOT_CHECKED, reason=reason),), job=job)


def checks_answer(checks: Sequence[ArmCheck]) -> tuple[str, str]:
    """Return the answer to a check alone in one sentence, and in a few words."""
    if different := [each for each in checks if each.different]:
        return f"{'; '.join(f'{each.labels} is {each.text}' for each in different)}.", DIFFERENT
    equal = [each for each in checks if each.answer in (SAME, AS_STOCK)]
    if not equal:
        return "No arm was checked to the end.", NOT_CHECKED
    arms = joined([f"“{label}”" for each in equal for label in each.arms])
    return f"{capitalized(SAME)} in {equal[0].steps} steps: {arms}.", SAME


def check_sentences(checks: Sequence[ArmCheck]) -> Iterator[str]:
    """Yield the answer of each check that ran."""
    for each in checks:
        if each.job:
            yield f"Check of {each.labels}: {each.text}."


def check_items(checks: Sequence[ArmCheck]) -> tuple[Block, ...]:
    """Return each check with a line for each setting, for narrow formats."""
    items = [
        Item(
            label=", ".join(check.arms),
            outcome=check.answer,
            texts=tuple(Text(f"{setting(each)}: {outcome(each)}".removeprefix(": ")) for each in check.findings),
        )
        for check in checks
    ]
    return (Items(tuple(items)), Text(_NOT_SHOWN, "small"))


_Row = tuple[ArmCheck, Finding]


def check_sections(checks: Sequence[ArmCheck]) -> tuple[Section, ...]:
    """Return the section with a row for each checked arm and setting, and for each arm that was not checked.

    Empty without checks.
    """

    def cost(column: str, row: _Row) -> float | None:
        """Return the cost of a check in its first row alone."""
        check, finding = row
        return check.job.number(column) if check.job and finding is check.findings[0] else None

    def answer(row: _Row) -> Cell:
        return Cell(text=row[1].answer, badge=_BADGES[row[1].answer], detail=row[1].reason)

    def largest(row: _Row) -> str | None:
        size = row[1].size
        if row[1].name == "precision" and not row[1].quantity:
            return f"{figure(size)} times stock"
        return None if row[1].answer == NOT_CHECKED else f"{size:.1e}" if size else "0"

    def place(row: _Row) -> str | None:
        return f"{quantity(row[1])} {at_step(row[1])}" if row[1].size and row[1].quantity else row[1].quantity or None

    columns = [
        Column[_Row]("arm", lambda row: ", ".join(row[0].arms), kind="text"),
        Column[_Row]("setting", lambda row: setting(row[1]) or NONE, kind="text"),
        Column[_Row]("answer", answer, kind="text"),
        Column[_Row]("largest difference", largest),
        Column[_Row]("where", place, kind="text", is_optional=True),
        Column[_Row]("billable", partial(cost, BILLABLE), unit="s"),
        Column[_Row]("cost", partial(cost, DOLLARS.column), unit="USD", text=money, is_optional=True),
    ]
    table = build_table("The checks", columns, [(check, finding) for check in checks for finding in check.findings])
    return (Section("Checked before the trainings", (table, Text(_NOT_SHOWN, "small"))),) if checks else ()


def check_fields(checks: Sequence[ArmCheck]) -> list[dict[str, Any]]:
    """Return the checks by arm for `summary.json`."""
    return [
        {
            "arm": label,
            "answer": each.answer,
            "steps": each.steps,
            "job": each.job.name if each.job else None,
            "billable_instance_seconds": each.job.number(BILLABLE) if each.job else None,
            "findings": [_finding_fields(finding) for finding in each.findings],
        }
        for each in checks
        for label in each.arms
    ]


def _finding_fields(finding: Finding) -> dict[str, Any]:
    fields = asdict(finding)
    return {"setting": fields.pop("name"), **fields}
