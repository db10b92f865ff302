"""Cost of listed jobs, worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from experiments.running.manage_jobs import total, usd
from training.contract.price import Price

PRICES = {"ml.g5.xlarge": Price(usd_per_hour=1.8, source="a table", date="2026-11-01")}


def running(seconds: float, **resources: Any) -> dict[str, Any]:
    return {
        "TrainingJobStatus": "InProgress",
        "TrainingStartTime": datetime.now(UTC) - timedelta(seconds=seconds),
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, **resources},
    }


def test_a_job_on_two_instances_costs_twice_as_much() -> None:
    # 1,000 s at 0.0005 USD: 0.50 USD for one instance, 1.00 USD for two.
    assert usd(running(1000), PRICES) == pytest.approx(0.50, abs=0.01)
    assert usd(running(1000, InstanceCount=2), PRICES) == pytest.approx(1.00, abs=0.01)
    selected = {"InstanceCount": 4, "SelectedInstanceType": "ml.g5.xlarge", "SelectedInstanceCount": 2}
    assert usd(running(1000, **selected), PRICES) == pytest.approx(1.00, abs=0.01)


def ended(billable: int, status: str = "Completed", **resources: Any) -> dict[str, Any]:
    """Return an ended job, started long ago, so that its billed seconds are not the time since then."""
    return {**running(90_000, **resources), "TrainingJobStatus": status, "BillableTimeInSeconds": billable}


def test_an_ended_job_costs_what_was_billed() -> None:
    # On spot capacity fewer seconds are billed than the job ran. A job that never got a machine was not billed.
    assert usd(ended(1000, InstanceCount=2), PRICES) == pytest.approx(1.00)
    assert usd(ended(0, status="Stopped"), PRICES) == 0
    assert usd({"TrainingJobStatus": "Completed"}, PRICES) is None  # listed, but not described


def test_running_and_ended_jobs_are_summed_apart() -> None:
    jobs = [running(1000), ended(1000), ended(3000, status="Failed")]
    text = "1 running, 0.50 USD so far; 2 ended, 2.00 USD (a table, 2026-11-01)"
    assert total(jobs, PRICES) == text
    assert total(jobs[1:], PRICES) == "2 ended, 2.00 USD (a table, 2026-11-01)"
    assert total(jobs, {}) == ""


def test_the_total_sums_jobs_with_a_known_price() -> None:
    jobs = [running(1000), running(1000, InstanceCount=2), running(1000, InstanceType="ml.unknown")]
    assert total(jobs, PRICES) == "2 running, 1.50 USD so far (a table, 2026-11-01)"
