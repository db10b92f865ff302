"""What a job cost, from descriptions whose numbers are worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.tracking.planned_jobs import planned
from tracking.recording.metric_points import cost_metrics, money, warm_pool_metrics
from training.contract.price import Price
from training.services.launcher import failure_of

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PRICE = Price(usd_per_hour=1.8, source="a table", date="2026-11-01")
"""Half a thousandth of a dollar a second."""


def course(*entries: tuple[str, float]) -> list[dict[str, Any]]:
    """Return transitions, one after the other, each of so many seconds."""
    found, at = [], NOON
    for status, seconds in entries:
        end = at + timedelta(seconds=seconds)
        found.append({"Status": status, "StartTime": at, "EndTime": end, "StatusMessage": status})
        at = end
    return found


SPOT = {
    "TrainingJobStatus": "Completed",
    "SecondaryStatus": "Completed",
    "EnableManagedSpotTraining": True,
    "ResourceConfig": {"InstanceCount": 4, "KeepAlivePeriodInSeconds": 600},
    "TrainingTimeInSeconds": 500,
    "BillableTimeInSeconds": 100,
    "SecondaryStatusTransitions": course(
        *(("Starting", 30), ("Pending", 15), ("Downloading", 20), ("DownloadingTrainingImage", 25), ("Training", 200)),
        *(("Interrupted", 40), ("Starting", 60), ("Downloading", 10), ("Training", 95.5), ("Uploading", 7)),
        ("Completed", 0),
    ),
}


def test_a_spot_job_of_four_machines() -> None:
    assert cost_metrics(SPOT) == {
        "cost/billable_seconds": 100,
        "cost/billable_instance_seconds": 400,
        "cost/training_seconds": 500,
        # AWS's own example: 100 billable of 500 training seconds is a saving of 80 %.
        "cost/spot_savings_percent": pytest.approx(80),
        "cost/spot_interruptions": 1,
        "time/queue_seconds": 30 + 15 + 60,
        "time/download_seconds": 20 + 25 + 10,
        "time/script_seconds": 200 + 95.5,
        "time/upload_seconds": 7,
    }
    assert money(400, PRICE) == {"cost/usd": pytest.approx(0.2)}


def test_a_job_at_the_full_price_tells_nothing_of_spot() -> None:
    usual = {**SPOT, "EnableManagedSpotTraining": False, "BillableTimeInSeconds": 500}
    assert {name for name in cost_metrics(usual) if "spot" in name} == set()
    assert cost_metrics(usual)["cost/billable_instance_seconds"] == 2000


def test_seconds_that_are_billed_as_they_are_trained_are_told_once() -> None:
    """500 s at the full price, and on spot where nothing was taken back; the exact time is the billed one's."""
    same = {**SPOT, "BillableTimeInSeconds": 500, "BillableSecondsExact": 500.25}
    assert "cost/training_seconds" not in cost_metrics(same)
    assert cost_metrics(same)["cost/billable_seconds"] == 500.25
    assert cost_metrics({"TrainingTimeInSeconds": 500})["cost/training_seconds"] == 500


def test_a_job_that_never_got_a_machine_cost_nothing() -> None:
    never = {"SecondaryStatusTransitions": course(("Starting", 12), ("Failed", 0)), "ResourceConfig": {}}
    assert cost_metrics(never) == {"time/queue_seconds": 12}
    assert money(None, PRICE) == {}


@pytest.mark.parametrize(
    ("pool", "seconds"),
    [
        ({"Status": "Available"}, None),
        ({"Status": "Available", "ResourceRetainedBillableTimeInSeconds": 120}, None),
        ({"Status": "InUse"}, None),
        ({"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 600}, 600),
        ({"Status": "Reused", "ResourceRetainedBillableTimeInSeconds": 0, "ReusedByJob": "next"}, 0),
    ],
)
def test_a_warm_pool_is_told_once_it_is_over(pool: dict[str, Any], seconds: float | None) -> None:
    """Of four machines, at half a thousandth of a dollar a second."""
    told = warm_pool_metrics({**SPOT, "WarmPoolStatus": pool}, PRICE)
    if seconds is None:
        assert told == {}
    else:
        assert told == {
            "cost/warm_pool_seconds": seconds,
            "cost/warm_pool_instance_seconds": 4 * seconds,
            "cost/warm_pool_usd": pytest.approx(0.002 * seconds),
        }
    assert cost_metrics({**SPOT, "WarmPoolStatus": pool}) == cost_metrics(SPOT)


def test_the_machines_that_were_chosen_are_counted_and_priced(tmp_path: Any) -> None:
    chosen = {"InstanceCount": 4, "SelectedInstanceType": "ml.b", "SelectedInstanceCount": 2}
    assert cost_metrics({**SPOT, "ResourceConfig": chosen})["cost/billable_instance_seconds"] == 200
    job = planned(tmp_path, "job")
    other = Price(usd_per_hour=9.0, source="a table", date="2026-11-01")
    job = type(job)(**{**vars(job), "price": PRICE, "fallback_prices": {"ml.b": other}})
    prices = {kind: job.price_on(kind) for kind in (None, "local", "ml.b", "ml.c")}
    assert prices == {None: PRICE, "local": PRICE, "ml.b": other, "ml.c": None}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("MaxRuntimeExceeded", "it ran longer than its 60 seconds"),
        ("MaxWaitTimeExceeded", "it took longer than its 90 seconds, the wait for machines included"),
    ],
)
def test_what_ends_over_time_has_failed(status: str, reason: str) -> None:
    limits = {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90}
    over = {"TrainingJobStatus": "Stopped", "SecondaryStatus": status, "StoppingCondition": limits}
    assert failure_of(over, [], []) == ("TimeLimit", reason)
