"""The report of an acceptance, with a step that differs and a step that failed."""

from __future__ import annotations

import json

import pytest

from acceptance.checks import Check
from acceptance.costs import Prices, step_costs
from acceptance.expectations import Difference
from acceptance.report import Report, StepResult, json_text, markdown
from acceptance.steps import STEPS
from training.contract.price import Price

PRICE = Price(usd_per_hour=0.7364, source="prices.json", date="2026-11-01")


@pytest.fixture
def report() -> Report:
    return Report(
        id="ab12",
        date="2026-11-25 15:00 UTC",
        region="eu-central-1",
        account="123456789012",
        checks=[Check(name="quotas", outcome="not checked", detail="Service Quotas: access is denied.")],
        costs=step_costs(STEPS, Prices(training=PRICE, hosting=PRICE)),
        results=[StepResult(name="own-task", title="Train", seconds=61.4, observed={"job.status": "Completed"})],
        lasting=["Log streams."],
    )


def test_a_report_without_differences_has_passed(report: Report) -> None:
    text = markdown(report)
    assert report.has_passed
    assert "Account 123456789012, region eu-central-1. Every step behaves like the simulated account." in text
    assert "## Differences from the simulated account\n\nNone." in text
    assert "| quotas | not checked | Service Quotas: access is denied. |" in text
    assert "| job.status | Completed |" in text
    assert json.loads(json_text(report))["passed"] is True


def test_a_difference_stands_beside_its_expectation_and_source(report: Report) -> None:
    difference = Difference(
        step="own-task",
        value="job.secondary_statuses",
        expected="matches 'Starting, (Pending, )?Downloading'",
        observed="Starting, Interrupted | Downloading",
        source="botocore",
    )
    report.results[0].differences = [difference]
    report.results.append(StepResult(name="script", title="Script", error="The step script has started no job."))
    text = markdown(report)
    assert not report.has_passed
    assert "1 difference, 1 step not completed." in text
    assert (
        "| own-task | job.secondary_statuses | matches 'Starting, (Pending, )?Downloading' "
        "| Starting, Interrupted \\| Downloading | botocore |"
    ) in text
    content = json.loads(json_text(report))
    assert content["results"][0]["differences"][0]["observed"] == "Starting, Interrupted | Downloading"
    assert content["results"][1]["error"] == "The step script has started no job."


def test_what_is_left_or_interrupted_has_not_passed(report: Report) -> None:
    report.left = ["Endpoint accept-ab12-endpoint still exists and is billed: delete it in the console."]
    assert not report.has_passed
    assert "- Endpoint accept-ab12-endpoint still exists" in markdown(report)
    report.left, report.interrupted = [], True
    assert not report.has_passed
    assert "The acceptance was interrupted." in markdown(report)
