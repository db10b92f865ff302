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
from reports.model.report import Block, Cell, Column, Section, Text, build_table
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
        same = [each for each in self.findings if each.answer == SAME]
        texts = [f"different {where(each)}: {difference(each)}" for each in self.different]
        if same and not texts:
            largest = max(same, key=lambda each: each.size)
            texts.append(f"no difference in {self.steps} steps (largest {largest.size:.1e}, {place(largest)})")
        for each in self.findings:
            if each.answer == AS_STOCK:
                texts.append(f"{setting(each)} as stock torch (error {figure(each.size)} times its error)")
            elif each.answer == NOT_CHECKED:
                texts.append(f"{setting(each)} not checked: {each.reason.rstrip('.')}".lstrip())
        return "; ".join(texts)

    @property
    def billed(self) -> str:
        """The cost of the check, such as `, 48 s billed`; empty without a billing record."""
        seconds = self.job.number(BILLABLE) if self.job else math.nan
        return f", {figure(seconds)} s billed" if seconds > 0 else ""


def setting(finding: Finding) -> str:
    return f"Trainer on {finding.value}" if finding.name == "trainer" else f"{finding.name} {finding.value}".strip()


def quantity(finding: Finding) -> str:
    is_layer = finding.size and finding.quantity not in ("", LOSS, NORM)
    return f"gradient of {finding.quantity}" if is_layer else finding.quantity


def where(finding: Finding) -> str:
    return f"at step {finding.step}" if finding.step else "in every step"


def place(finding: Finding) -> str:
    return f"{quantity(finding)} {where(finding)}"


def difference(finding: Finding) -> str:
    """Return what differs, such as `loss differs by 3.1e-03 (compiler inductor)`."""
    if not finding.quantity:
        return f"{figure(finding.size)} times the error of stock torch ({setting(finding)})"
    size = f" differs by {finding.size:.1e}" if math.isfinite(finding.size) else " is not finite"
    return f"{quantity(finding)}{size if finding.size else ''} ({setting(finding)})"


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
        texts = [f"{each.labels} {'is' if len(each.arms) == 1 else 'are'} {each.text}" for each in different]
        return f"{capitalized('; '.join(texts))}.", "different"
    if equal := [label for each in checks if each.answer in (SAME, AS_STOCK) for label in each.arms]:
        arms = joined([f"“{label}”" for label in equal])
        return f"The settings of {arms} change the time of a training and nothing else.", "no difference"
    return "No arm was checked to the end.", "not checked"


def check_sentences(checks: Sequence[ArmCheck]) -> Iterator[str]:
    """Yield the answer of each check that ran."""
    for each in checks:
        if each.job:
            yield f"Check of {each.labels}: {each.text}."


_Row = tuple[ArmCheck, Finding]


def check_blocks(checks: Sequence[ArmCheck]) -> tuple[Block, ...]:
    """Return the table with a row for each checked arm and setting, and for each arm that was not checked."""

    def cost(column: str, row: _Row) -> float | None:
        """Return the cost of a check in its first row alone."""
        check, finding = row
        return check.job.number(column) if check.job and finding is check.findings[0] else None

    def answer(row: _Row) -> Cell:
        return Cell(text=row[1].answer, badge=_BADGES[row[1].answer], detail=row[1].reason)

    def largest(row: _Row) -> str | None:
        finding = row[1]
        if finding.name == "precision" and not finding.quantity:
            return f"{figure(finding.size)} x stock"
        return f"{finding.size:.1e}" if finding.answer != NOT_CHECKED else None

    columns = [
        Column[_Row]("arms", lambda row: ", ".join(row[0].arms), head="arm", kind="text"),
        Column[_Row]("setting", lambda row: setting(row[1]) or NONE, kind="text"),
        Column[_Row]("answer", answer, kind="text"),
        Column[_Row]("largest difference", largest, head="largest\ndifference"),
        Column[_Row]("where", lambda row: place(row[1]) if row[1].quantity else None, kind="text", is_optional=True),
        Column[_Row]("billable", partial(cost, BILLABLE), unit="s"),
        Column[_Row]("cost", partial(cost, DOLLARS.column), unit="USD", text=money, is_optional=True),
    ]
    rows = [(check, finding) for check in checks for finding in check.findings]
    return (build_table("The checks", columns, rows), Text(_NOT_SHOWN, "small"))


def check_sections(checks: Sequence[ArmCheck]) -> tuple[Section, ...]:
    """Return the section with the checks; empty without any."""
    return (Section("Checked before the trainings", check_blocks(checks)),) if checks else ()


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
