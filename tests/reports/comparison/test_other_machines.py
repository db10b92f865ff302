"""Test arms on different machines, which are compared in dollars and reported with their time."""

from __future__ import annotations

import re

import pytest

from judging.quality import MEASURES
from reports.charts.report_charts import comparison_charts
from reports.comparison import messages
from reports.comparison.arms import Arm, Job
from reports.comparison.comparison import Comparison, Contrast, judge
from reports.comparison.equal_work import work_differences
from reports.comparison.report import environment_texts
from reports.comparison.tables import columns
from tests.support.reports.verdicts import descriptions

ACCURACY = MEASURES[0]


def arm(label: str, seconds: list[int], usd_per_hour: float | None, count: int = 1, **text: str) -> Arm:
    """Return an arm whose jobs were each billed these whole seconds, as SageMaker bills them."""
    return Arm(label, tuple(_job(label, each, usd_per_hour, count, text) for each in seconds))


def _job(label: str, seconds: int, usd_per_hour: float | None, count: int, text: dict[str, str]) -> Job:
    numbers = {
        "cost_billable_seconds": float(seconds),
        "cost_billable_instance_seconds": float(seconds * count),
        "samples": 2000.0,
        "eval_accuracy": 0.9,
    }
    if usd_per_hour is not None:
        numbers["cost_usd"] = seconds * count * usd_per_hour / 3600
    tags = {"device": f"1 x {label}", "data_key": "k", "instance_type": label, "job_instance_count": str(count)}
    return Job(
        run_id="r",
        experiment_id="1",
        name="j",
        status="FINISHED",
        arm=label,
        is_baseline=False,
        repeat="0",
        cache_state="off",
        text=tags | text,
        numbers=numbers,
    )


SMALL = arm("ml.g4dn.xlarge", [1000, 1010, 990], 0.736)


def test_a_machine_with_a_higher_price_can_be_cheaper() -> None:
    """400 s at 1.408 USD per hour cost 0.156 USD; 1,000 s at 0.736 cost 0.204: 23.5 % fewer dollars."""
    large = arm("ml.g5.xlarge", [400, 404, 396], 1.408)
    verdict = judge(large, SMALL, ACCURACY)
    assert verdict.outcome == "cheaper"
    assert verdict.ratio is not None
    assert verdict.ratio.estimate == pytest.approx(400 * 1.408 / (1000 * 0.736), rel=1e-4)
    contrast = Contrast(large, verdict, None, {})
    comparison = Comparison("g", (SMALL, large), (contrast,), ACCURACY)
    assert messages.headline(comparison) == "“ml.g5.xlarge” is cheaper: 23 % fewer dollars than “ml.g4dn.xlarge”."
    assert "cost" in [column.label for column in columns(comparison)]
    assert messages.time_sentences(large, SMALL) == [
        "It takes 0.40 times as long: 400 s against 1,000 s, at 0.77 times the cost."
    ]


def test_a_faster_machine_can_cost_more() -> None:
    """A tenth of the time at twice the cost, as published for BERT large on sixteen devices."""
    large = arm("ml.p4d.24xlarge", [100, 101, 99], 14.72)
    verdict = judge(large, SMALL, ACCURACY)
    assert verdict.outcome == "not cheaper"
    assert verdict.ratio is not None
    assert verdict.ratio.estimate == pytest.approx(2.0, rel=1e-3)
    assert messages.time_sentences(large, SMALL) == [
        "It takes 0.10 times as long: 100 s against 1,000 s, at 2.00 times the cost."
    ]


def test_charts_compare_seconds_and_dollars_separately() -> None:
    """400 s is 60 % less than 1,000 s; 0.156 USD (400 s at 1.408 per hour) is 23 % less than 0.204."""
    large = arm("ml.g5.xlarge", [400, 404, 396], 1.408)
    contrast = Contrast(large, judge(large, SMALL, ACCURACY), None, {})
    charts = {
        chart.name: chart for chart in comparison_charts(Comparison("g", (SMALL, large), (contrast,), ACCURACY), {})
    }
    texts = {name: " ".join(re.sub("<[^>]+>", " ", chart.svg).split()) for name, chart in charts.items()}
    assert "400 −60 %" in texts["billable"]
    assert "0.156 −23 %" in texts["cost"]
    assert charts["cost"].title == "Billable cost: USD per job"
    assert charts["interval"].title == "Cost against the baseline: 95 % interval"
    assert "change in dollars, %" in texts["interval"]


def test_the_price_is_shown_with_its_source_and_date() -> None:
    price = {"price_usd_per_hour": "1.408", "price_source": "AWS", "price_date": "2026-02-01"}
    jobs = [*arm("ml.g5.xlarge", [400, 404], 1.408, **price).jobs, *arm("local", [10], None).jobs]
    assert environment_texts(jobs, {})["Price"] == "1.408 USD per hour of ml.g5.xlarge (AWS, 2026-02-01)"
    assert "Price" not in environment_texts(jobs[2:], {})


def test_instance_counts_of_one_type_are_compared_in_instance_seconds() -> None:
    """Twice 600 s are 1,200 instance seconds against 1,000, and no price is needed."""
    one, two = arm("ml.g5.xlarge", [1000, 1002], None), arm("ml.g5.xlarge", [600, 601], None, count=2)
    two = Arm("two", tuple(Job(**{**vars(job), "text": {**job.text, "device": "2 x A10G"}}) for job in two.jobs))
    verdict = judge(two, one, ACCURACY)
    assert verdict.outcome == "not cheaper"
    assert verdict.ratio is not None
    assert verdict.ratio.estimate == pytest.approx(1.2, abs=0.002)
    assert messages.time_sentences(two, one) == [
        "It takes 0.60 times as long: 10.0 min against 16.7 min, at 1.20 times the cost."
    ]


def test_whole_seconds_are_rounded_in_dollars_too() -> None:
    """Two jobs that were billed 41 s each do not prove a spread of zero."""
    verdict = judge(arm("ml.g5.xlarge", [41, 41], 1.0), arm("ml.g4dn.xlarge", [41, 41], 1.01), ACCURACY)
    assert verdict.outcome == "inconclusive"


def test_without_prices_the_table_has_no_cost_column() -> None:
    job = arm("local", [10], None).jobs[0]
    failed = Arm("none", (Job(**{**vars(job), "status": "FAILED"}),))
    assert "cost" not in [column.label for column in columns(Comparison("g", (failed,), (), None))]


def test_without_a_price_machines_are_not_comparable() -> None:
    large = arm("ml.g5.xlarge", [400, 404], None)
    assert descriptions(work_differences(large, SMALL)) == [
        "the instance type differs (ml.g4dn.xlarge, ml.g5.xlarge) and not every job has a price"
    ]


def test_an_arm_with_jobs_on_different_machines_is_not_comparable() -> None:
    """One of the arm's jobs fell back to a different instance type."""
    mixed = Arm("a", (*arm("ml.g5.xlarge", [400], 1.408).jobs, *arm("ml.g4dn.xlarge", [990], 0.736).jobs))
    types = "ml.g4dn.xlarge, ml.g5.xlarge"
    assert f"the instance type differs ({types})" in descriptions(work_differences(mixed, SMALL))
