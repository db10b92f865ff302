"""Shares of a budget that jobs take, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tracking.planned_jobs import planned
from tracking.budgets.ledger import (
    JobRecord,
    NoRoom,
    Request,
    Reservation,
    budget_failure,
    charge,
    committed,
    read_reservation,
    recorded_cost,
    reservation,
    reserve,
    room,
    shortest_useful_seconds,
    with_limit,
)
from tracking.groups.planned_job import PlannedJob
from training.contract.failures import Failure
from training.contract.price import InstanceSeconds, Price
from training.services.budget import NOTHING, Amount, Budget

PRICE = Price(usd_per_hour=3.6, source="table", date="2026-11-01")  # 0.001 USD a second


def amount(seconds: float, usd: float | None = None) -> Amount:
    return Amount(seconds=InstanceSeconds(seconds), usd=usd)


def reserved(limit: int, pool: float = 0.0, *, is_granted: bool = True) -> Reservation:
    return Reservation(
        limit_seconds=limit, worst=amount(limit + 150 + pool, 1.0), pool=amount(pool, 0.1), is_granted=is_granted
    )


@pytest.fixture
def job(tmp_path: Path) -> PlannedJob:
    one = planned(tmp_path, "job")
    fields = {"instance_type": "ml.g5.xlarge", "max_run_seconds": 1000, "keep_alive_seconds": 100}
    return replace(one, price=PRICE, spec=one.spec.model_copy(update=fields))


def test_a_reservation_survives_its_tag(job: PlannedJob) -> None:
    """500 s, 150 s for the stop and 100 s of the warm pool."""
    made = reservation(job, 500)
    assert (made.worst, made.pool) == (amount(750, pytest.approx(0.75)), amount(100, pytest.approx(0.1)))
    assert read_reservation(made.as_text()) == made
    assert read_reservation("withdrawn") is None


def test_a_job_that_has_not_ended_counts_with_its_largest_reservation() -> None:
    assert charge(JobRecord(reserved={"a": reserved(10), "b": reserved(20)})) == amount(170, 1.0)
    assert charge(JobRecord(reserved={"a": reserved(10, is_granted=False)})).seconds == 160
    assert charge(JobRecord(unlimited=amount(7))) == amount(7)
    assert charge(JobRecord()) == NOTHING


def test_an_ended_job_counts_with_its_cost() -> None:
    ended = JobRecord(has_ended=True, cost=amount(33, 0.5), reserved={"a": reserved(100)})
    assert charge(ended) == amount(33, 0.6)  # its warm pool may have cost 0.1
    assert charge(replace(ended, pool_cost=amount(2, 0.01))) == amount(35, 0.51)
    assert charge(replace(ended, reserved={"a": reserved(100, pool=60)})) == amount(93, 0.6)


def test_a_cost_that_is_not_recorded_counts_with_the_worst_case() -> None:
    lost = JobRecord(has_ended=True, reserved={"a": reserved(100)})
    assert charge(lost) == amount(250, 1.0)
    assert charge(replace(lost, cost=amount(33), pool_cost=NOTHING)) == amount(33, 1.0)
    assert charge(replace(lost, was_billed=False)) == NOTHING
    # The cost is recorded before the end: until then, more may be billed.
    assert charge(replace(lost, has_ended=False, cost=amount(33))) == amount(250, 1.0)


def test_costs_are_summed_where_they_are_known() -> None:
    records = {
        "a": JobRecord(has_ended=True, cost=amount(10, 0.5), pool_cost=amount(1, 0.25)),
        "b": JobRecord(has_ended=True, cost=amount(20), unlimited=amount(40)),
        "c": JobRecord(reserved={"x": reserved(100)}),
    }
    assert recorded_cost(records) == amount(31, 0.75)
    assert committed(records, without="c") == amount(31)
    assert recorded_cost({}) == NOTHING


def test_a_job_needs_a_fifth_more_than_the_longest_of_its_arm() -> None:
    done = JobRecord(arm="a", has_ended=True, billable_seconds=100)
    records = {"1": done, "2": replace(done, billable_seconds=50), "3": replace(done, arm="b", billable_seconds=300)}
    assert shortest_useful_seconds(records, "a", None) == 120
    assert shortest_useful_seconds(records, "a", 200) == 200
    assert shortest_useful_seconds(records, "new", None) == 360
    assert shortest_useful_seconds({}, "a", None) == 60
    assert shortest_useful_seconds({}, "a", 5) == 5
    cut = JobRecord(arm="a", has_ended=True, failure_class="Budget", reserved={"x": reserved(200)})
    assert shortest_useful_seconds({**records, "4": cut}, "a", None) == 240
    failed = replace(done, billable_seconds=900, failure_class="Error")
    assert shortest_useful_seconds({**records, "4": failed}, "a", None) == 120


def test_a_lower_limit_keeps_the_wait_for_spot_capacity(job: PlannedJob) -> None:
    assert with_limit(job.spec, 10).max_wait_seconds is None
    assert with_limit(job.spec.model_copy(update={"spot": True}), 10).max_wait_seconds == 1000 + 86_400


def test_only_a_lowered_limit_is_the_budgets_fault(job: PlannedJob) -> None:
    over, lowered = Failure("TimeLimit", "too long"), {"StoppingCondition": {"MaxRuntimeInSeconds": 10}}
    assert budget_failure(over, lowered, job).failure_class == "Budget"
    assert budget_failure(Failure("Error", "x"), lowered, job) == Failure("Error", "x")
    assert budget_failure(over, {"StoppingCondition": {"MaxRuntimeInSeconds": 1000}}, job) == over


def test_a_granted_reservation_is_kept_whatever_the_budget_is_now(job: PlannedJob) -> None:
    records = {"job": JobRecord(reserved={"elsewhere": reserved(10)})}
    request = Request(planned=job, launcher="here", budget=Budget(max_billable_seconds=1))
    assert room(request, records) == reserved(10)


def test_a_reservation_left_by_a_killed_launcher_is_withdrawn_if_it_does_not_fit(job: PlannedJob) -> None:
    records = {
        "job": JobRecord(reserved={"here": reserved(10, is_granted=False)}),
        "other": JobRecord(is_submitted=True, reserved={"here": reserved(900)}),
    }
    steps = reserve(Request(planned=job, launcher="here", budget=Budget(max_billable_seconds=1200)))
    assert next(steps) == "read"
    step = steps.send(records)
    assert step != "read"
    assert step.reserved is None
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == NoRoom(holding=frozenset({"other"}))
    assert not end.value.value.is_final
