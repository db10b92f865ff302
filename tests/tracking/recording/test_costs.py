"""Costs of jobs, from descriptions whose numbers are worked out by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.tracking.planned_jobs import planned
from tracking.groups.planned_job import ScriptTarget
from tracking.recording.metrics import cost_metrics, target_metrics, warm_pool_metrics
from training.contract.events import Event
from training.contract.price import Price

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PRICE = Price(usd_per_hour=1.8, source="a table", date="2026-11-01")
"""0.0005 USD a second."""


def transitions(*entries: tuple[str, float]) -> list[dict[str, Any]]:
    """Return consecutive status transitions; each entry is a status and its seconds."""
    result, at = [], NOON
    for status, seconds in entries:
        end = at + timedelta(seconds=seconds)
        result.append({"Status": status, "StartTime": at, "EndTime": end, "StatusMessage": status})
        at = end
    return result


SPOT = {
    "TrainingJobStatus": "Completed",
    "SecondaryStatus": "Completed",
    "EnableManagedSpotTraining": True,
    "ResourceConfig": {"InstanceCount": 4, "KeepAlivePeriodInSeconds": 600},
    "TrainingTimeInSeconds": 500,
    "BillableTimeInSeconds": 100,
    "SecondaryStatusTransitions": transitions(
        *(("Starting", 30), ("Pending", 15), ("Downloading", 20), ("DownloadingTrainingImage", 25), ("Training", 200)),
        *(("Interrupted", 40), ("Starting", 60), ("Downloading", 10), ("Training", 95.5), ("Uploading", 7)),
        ("Completed", 0),
    ),
}


def test_a_spot_job_of_four_instances() -> None:
    assert cost_metrics(SPOT) == {
        "cost/billable_seconds": 100,
        "cost/billable_instance_seconds": 400,
        "cost/training_seconds": 500,
        # AWS's own example: 100 billable of 500 training seconds is a saving of 80 %.
        "cost/spot_savings_percent": pytest.approx(80),
        "cost/interruptions": 1,
        "time/queue_seconds": 30 + 15 + 60,
        "time/download_seconds": 20 + 25 + 10,
        "time/script_seconds": 200 + 95.5,
        "time/upload_seconds": 7,
    }
    assert cost_metrics(SPOT, PRICE)["cost/usd"] == pytest.approx(0.2)


def test_a_job_at_the_full_price_and_one_that_never_ran() -> None:
    """500 s at the full price, and on spot without a discount; the exact seconds are the billable ones."""
    usual = cost_metrics({**SPOT, "EnableManagedSpotTraining": False, "BillableTimeInSeconds": 500})
    assert usual["cost/billable_instance_seconds"] == 2000
    assert [name for name in usual if "spot" in name or "training" in name] == []
    same = cost_metrics({**SPOT, "BillableTimeInSeconds": 500, "BillableSecondsExact": 500.25})
    assert "cost/training_seconds" not in same
    assert same["cost/billable_seconds"] == 500.25
    never = {"SecondaryStatusTransitions": transitions(("Starting", 12), ("Failed", 0)), "ResourceConfig": {}}
    assert cost_metrics(never, PRICE) == {"time/queue_seconds": 12}


@pytest.mark.parametrize(
    ("pool", "seconds"),
    [
        ({"Status": "Available", "ResourceRetainedBillableTimeInSeconds": 120}, None),
        ({"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 600}, 600),
        ({"Status": "Reused", "ResourceRetainedBillableTimeInSeconds": 0, "ReusedByJob": "next"}, 0),
    ],
)
def test_a_warm_pool_is_charged_when_it_is_closed(pool: dict[str, Any], seconds: float | None) -> None:
    """Four instances, each at 0.0005 USD a second."""
    metrics = warm_pool_metrics({**SPOT, "WarmPoolStatus": pool}, PRICE)
    if seconds is None:
        assert metrics == {}
    else:
        assert metrics == {
            "cost/warm_pool_seconds": seconds,
            "cost/warm_pool_instance_seconds": 4 * seconds,
            "cost/warm_pool_usd": pytest.approx(0.002 * seconds),
        }
    assert cost_metrics({**SPOT, "WarmPoolStatus": pool}) == cost_metrics(SPOT)


def test_the_selected_instances_are_counted_and_priced(tmp_path: Any) -> None:
    chosen = {"InstanceCount": 4, "SelectedInstanceType": "ml.b", "SelectedInstanceCount": 2}
    assert cost_metrics({**SPOT, "ResourceConfig": chosen})["cost/billable_instance_seconds"] == 200
    job = planned(tmp_path, "job")
    other = Price(usd_per_hour=9.0, source="a table", date="2026-11-01")
    job = type(job)(**{**vars(job), "price": PRICE, "fallback_prices": {"ml.b": other}})
    prices = {kind: job.price_on(kind) for kind in (None, "local", "ml.b", "ml.c")}
    assert prices == {None: PRICE, "local": PRICE, "ml.b": other, "ml.c": None}


def test_the_time_and_the_cost_to_a_target_end_at_the_first_evaluation_that_reached_it() -> None:
    def evaluation(seq: int, seconds: float, accuracy: float, **more: float) -> Event:
        return Event(
            "metric", seq, NOON.timestamp() + seconds, {"step": seq, "values": {"eval_accuracy": accuracy}, **more}
        )

    count = Event("metric", 2, NOON.timestamp() + 140, {"step": 20, "samples": 320, "values": {}})
    events = [
        evaluation(1, 100, 0.7, samples=160),
        count,
        evaluation(3, 150, 0.8),
        evaluation(4, 190, 0.9, samples=480),
    ]
    # Of 200 s, 45 are not billed: the wait, before 45 s of downloads. The script starts after 90 s.
    figures = {**cost_metrics(SPOT, PRICE), "time/download_seconds": 45.0}
    reached = target_metrics(ScriptTarget("eval_accuracy", 0.8, True, True), events, SPOT, figures)
    # 60 s of the script, and 45 of downloads, of which spot capacity saved 80 %: 21 s, times four instances.
    assert reached == {
        "target/reached": 1,
        "target/seconds": pytest.approx(60),
        "target/samples": 320,
        "target/usd": pytest.approx(21 * 4 * 0.0005),
        "target/billable_seconds": pytest.approx(21),
    }
    assert "target/billable_seconds" not in target_metrics(
        ScriptTarget("eval_accuracy", 0.8, True, False), events, SPOT, figures
    )
    for target in (ScriptTarget("eval_accuracy", 0.95, True, True), ScriptTarget("eval_loss", 0.5, False, True)):
        assert target_metrics(target, events, SPOT, figures) == {"target/reached": 0}
    assert (
        target_metrics(ScriptTarget("eval_accuracy", 0.7, False, True), events, SPOT, figures)["target/samples"] == 160
    )
    assert not ScriptTarget("loss", 1.0, False, True).is_reached({"loss": math.nan})
