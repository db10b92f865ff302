"""Test the report of one training, on hand-made runs: it states the outcome, and compares nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reports.formats.text import name_with_answer
from reports.model.report import Report
from reports.render import render
from tests.support.answers import checked_report
from tests.support.reports.reading import markdown_text, page_text, terminal_text

COMPARING = re.compile(
    r"verdict|interval|cheaper|dearer|baseline|inconclusive|repeat|\barms?\b|break-even|“none”", re.IGNORECASE
)
"""Words of comparisons."""


def forms(report: Report) -> list[str]:
    return [page_text(report), terminal_text(report), markdown_text(report)]


def test_one_training_states_its_outcome_without_comparing(tracked: Any) -> None:
    tracked.trained("none", 0, 41.0, baseline=True, tags={"platform.role": "training"})
    report = render(tracked.client, tracked.group, "demo")
    for form in forms(report):
        assert "The training took 41.0 billable seconds and reached accuracy 0.900." in form
        assert COMPARING.findall(form) == []
    assert name_with_answer("train demo", report) == "41.0 s billed (train demo)"
    answer = checked_report("training", report)
    assert {"baseline", "best", "contrasts", "rules"}.isdisjoint(answer)
    assert [arm["succeeded"] for arm in answer["arms"]] == [1]


@pytest.mark.parametrize(
    ("status", "failure", "headline", "name"),
    [
        (
            "FAILED",
            "OutOfMemory: no memory is left",
            "failed after 7.00 billable seconds: OutOfMemory: no memory",
            "failed",
        ),
        ("KILLED", "Stopped: it was stopped", "was stopped after 7.00 billable seconds.", "stopped"),
    ],
)
def test_a_training_without_success_says_why(tracked: Any, status: str, failure: str, headline: str, name: str) -> None:
    failure_class, _, message = failure.partition(": ")
    tags = {"platform.failure_class": failure_class, "platform.failure_message": message, "platform.role": "training"}
    tracked.job("none", 0, status=status, metrics={"cost/billable_instance_seconds": 7.0}, tags=tags)
    report = render(tracked.client, tracked.group, "demo")
    for form in forms(report):
        assert f"The training {headline}" in form
        assert COMPARING.findall(form) == []
        assert ("fail" in form) is (status == "FAILED")
    assert name_with_answer("train demo", report) == f"{name} (train demo)"
    assert bool(report.results) is (status == "FAILED")


def test_several_trainings_of_one_setting_are_a_comparison(tracked: Any) -> None:
    for repeat in range(2):
        tracked.trained("none", repeat, 41.0, baseline=True)
    assert "“none” took 41.0 billable seconds." in page_text(render(tracked.client, tracked.group, "demo"))
