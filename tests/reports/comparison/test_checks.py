"""Checks in the report: the answers from the tables of their jobs, and the section with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from judging.equivalence import LOSS, NORM, Answer, Finding
from reports.comparison.checks import ArmCheck, check_sections, checks_of
from reports.comparison.comparison import compare
from reports.comparison.report import Source, comparison_report
from reports.model.report import Report, Table, Text
from tests.support.answers import checked_report
from tests.support.reports.verdicts import job_row
from tracking.recorded.recorded_job import Job

LAYER = "encoder.layer.0"


def rows(name: str, value: str, *losses: float, against: str = "plain", gradient: float = 2.0) -> list[dict[str, Any]]:
    described = {"name": name, "value": value, "against": against, "precision": "fp32", "optimizer": ""}
    return [
        {**described, "step": step, LOSS: loss, NORM: 3.0, LAYER: gradient} for step, loss in enumerate(losses, start=1)
    ]


PLAIN = rows("plain", "", 2.0, 1.0)
SAME = [*PLAIN, *rows("compiler", "inductor", 2.0, 1.0, gradient=2.0 * (1 + 2**-21))]
DIFFERENT = [*PLAIN, *rows("trainer", "2 processes", 2.0, 1.0), *rows("attention", "sdpa", 2.0, 1.5, against="trainer")]


def content(table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = list(dict.fromkeys(name for row in table for name in row))
    return {"columns": columns, "data": [[row.get(name) for name in columns] for row in table]}


def check_row(arm: str, **columns: Any) -> dict[str, Any]:
    named = {"job_name": f"{arm}-check", "run_id": f"{arm}-check", "role": "check", "baseline": "false"}
    return {**job_row(f"{arm}, check", 48.0), **named, "group": "g", **columns}


def made(tables: Mapping[str, Any], *jobs: dict[str, Any], **document: Any) -> tuple[ArmCheck, ...]:
    def read(job: Job) -> dict[str, Any]:
        return content(tables.get(job.name.removesuffix("-check"), []))

    return checks_of(pd.DataFrame(jobs), document, read)


def texts(checks: Sequence[ArmCheck]) -> dict[tuple[str, ...], str]:
    return {tuple(each.arms): each.text for each in checks}


def test_every_answer_is_a_line() -> None:
    failed = {"status": "FAILED", "failure_class": "OutOfMemory", "failure_message": "CUDA out of memory."}
    tables = {
        "a": SAME,
        "b": DIFFERENT,
        "c": [*PLAIN, {"name": "sharding", "value": "fsdp2", "against": "plain", "step": 0, "not_checked": "one GPU."}],
    }
    jobs = [check_row("a"), check_row("b"), check_row("c"), check_row("d", **failed), check_row("e", status="KILLED")]
    shared = {f"{arm}-check": [arm] for arm in "abcdef"} | {"a-check": ["a", "a2"]}
    assert texts(made(tables, *jobs, arms=shared, not_checked={"g": "batch_size changes what is learned"})) == {
        ("a", "a2"): "no difference (compiler inductor: gradient of encoder.layer.0 4.8e-07 at step 2)",
        ("b",): "different (attention sdpa: loss differs by 5.0e-01 at step 2)",
        ("c",): "not checked (sharding fsdp2: one GPU)",
        ("d",): "not checked (its check failed (OutOfMemory: CUDA out of memory))",
        ("e",): "not checked (its check did not run to its end)",
        ("f",): "not checked (its check did not run to its end)",
        ("g",): "not checked (batch_size changes what is learned)",
    }


@pytest.mark.parametrize(
    ("answer", "name", "quantity", "size", "text"),
    [
        ("as stock torch", "precision", "", 1.25, "precision x: error 1.25 times that of stock torch"),
        ("different", "precision", "", 63.2, "precision x: error 63.2 times that of stock torch"),
        (
            "different",
            "compiler",
            "lr of bias is 2 instead of 1",
            0.0,
            "compiler x: lr of bias is 2 instead of 1 at step 1",
        ),
    ],
)
def test_errors_and_options_are_named(answer: Answer, name: str, quantity: str, size: float, text: str) -> None:
    finding = Finding(name=name, value="x", answer=answer, step=1, quantity=quantity, size=size)
    assert ArmCheck(arms=["a"], findings=[finding]).text == f"{answer} ({text})"


def test_a_section_has_a_row_for_each_setting() -> None:
    checks = made({"a": SAME, "b": DIFFERENT}, check_row("a"), check_row("b"), not_checked={"c": "it differs in seed"})
    [section] = check_sections(checks)
    table, note = section.blocks
    assert isinstance(table, Table)
    assert isinstance(note, Text)
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["a", "compiler inductor", "no difference", "gradient of encoder.layer.0 4.8e-07 at step 2", "48.0"],
        ["b", "trainer 2 processes", "no difference", "equal to the last digit", "48.0"],
        ["b", "attention sdpa", "different", "loss differs by 5.0e-01 at step 2", "–"],
        ["c", "–", "not checked", "it differs in seed", "–"],
    ]
    assert check_sections(()) == ()


def report(checks: Sequence[ArmCheck], *jobs: dict[str, Any]) -> Report:
    table = pd.DataFrame(jobs)
    comparison = replace(compare(table, "g"), checks=tuple(checks))
    return comparison_report(comparison, (), Source(title="t", tracking_uri="", environment={}, table=table))


def test_a_check_is_no_repeat_of_its_arm() -> None:
    trainings = [{**job_row(arm, 10.0, repeat), "group": "g"} for arm in ("none", "a") for repeat in range(2)]
    shown = report(made({"a": SAME}, check_row("a")), check_row("a"), *trainings)
    answer = checked_report("comparison", shown)
    assert [(each["label"], each["jobs"]) for each in answer["arms"]] == [("none", 2), ("a", 2)]
    assert answer["paid_instance_seconds"] == 88.0
    assert [(each["arm"], each["answer"]) for each in answer["checks"]] == [("a", "no difference")]
    assert shown.verdicts["a-check"] == "no difference"
    assert "Checked before the trainings" in [section.title for section in shown.sections]
    assert "Checked before the trainings" not in [section.title for section in report((), *trainings).sections]


def test_a_group_of_checks_alone_has_their_answer() -> None:
    different = report(
        made({"a": SAME, "b": DIFFERENT}, check_row("a"), check_row("b")), check_row("a"), check_row("b")
    )
    assert different.headline == "“b”: different (attention sdpa: loss differs by 5.0e-01 at step 2)."
    checked_report("check", different)
    assert (
        report(made({"a": SAME}, check_row("a")), check_row("a")).headline
        == "In five steps, “a” computes the same as plain PyTorch."
    )
