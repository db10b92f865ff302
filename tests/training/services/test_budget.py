"""Worst cases and time limits, each worked out by hand."""

from __future__ import annotations

import pytest

from training.contract.job_spec import JobSpec
from training.contract.price import InstanceSeconds, Price
from training.services.budget import (
    NOTHING,
    Amount,
    Budget,
    Spending,
    certain_starts,
    dearest,
    fitting_limit,
    longest_limit,
    overhead_seconds,
    total,
    warm_pool,
    worst_case,
)
from training.services.supervision import supervise

PRICE = Price(usd_per_hour=3.6, source="table", date="2026-11-01")  # 0.001 USD a second


def spec(**fields: object) -> JobSpec:
    values = {"name": "j", "hyperparameters": {}, "channels": {}, "source_uri": "file:///s", "output_uri": "file:///o"}
    return JobSpec.model_validate({**values, "instance_type": "ml.g5.xlarge", "max_run_seconds": 3600, **fields})


def amount(seconds: float, usd: float | None = None) -> Amount:
    return Amount(seconds=InstanceSeconds(seconds), usd=usd)


def test_a_job_costs_at_most_its_limit_the_grace_and_the_upload() -> None:
    """3600 s + 120 s + 30 s on each of two instances: 7500 s, at 0.001 USD."""
    worst = worst_case(spec(instance_count=2), PRICE)
    assert worst.seconds == 7500
    assert worst.usd == pytest.approx(7.5)


def test_a_warm_pool_is_billed_on_top() -> None:
    job = spec(keep_alive_seconds=600)
    assert warm_pool(job, PRICE) == amount(600, pytest.approx(0.6))
    assert worst_case(job, PRICE).seconds == 3600 + 150 + 600


def test_spot_capacity_has_the_same_bound() -> None:
    assert worst_case(spec(spot=True, max_wait_seconds=9000), PRICE) == worst_case(spec(), PRICE)


def test_the_grace_of_a_local_job_is_that_of_its_supervisor() -> None:
    assert overhead_seconds(spec(instance_type="local")) == supervise.STOP_GRACE_SECONDS + 30
    short = spec(instance_type="local", environment={supervise.GRACE_VARIABLE: "2.5"})
    assert overhead_seconds(short) == 32.5
    assert overhead_seconds(spec(environment={supervise.GRACE_VARIABLE: "2.5"})) == 150  # SageMaker ignores it


def test_unknown_prices_stay_unknown() -> None:
    assert worst_case(spec(), None).usd is None
    assert total([amount(1, 2.0), amount(3)]) == amount(4)
    assert total([]) == NOTHING
    other = Price(usd_per_hour=7.2, source="table", date="2026-11-01")
    assert dearest([PRICE, other]) == other
    assert dearest([PRICE, None]) is None


def test_a_budget_in_dollars_allows_no_unknown_cost() -> None:
    assert Budget(max_billable_seconds=10).allows(amount(10))
    assert not Budget(max_billable_seconds=10).allows(amount(10.1))
    assert Budget(max_usd=5).allows(amount(1e9, 5.0))
    assert not Budget(max_usd=5).allows(amount(1, 5.01))
    assert not Budget(max_usd=5).allows(amount(1))
    assert Budget().allows(amount(1e9))


def test_what_is_left_is_never_negative() -> None:
    budget = Budget(max_usd=5, max_billable_seconds=100)
    assert budget.left(amount(40, 2.0)) == Budget(max_usd=3, max_billable_seconds=60)
    assert budget.left(amount(140, 9.0)) == Budget(max_usd=0, max_billable_seconds=0)
    state = Spending(budget=budget, spent=amount(40, 2.0), committed=amount(90, 4.5))
    assert state.left == Budget(max_usd=3, max_billable_seconds=60)
    assert state.free == Budget(max_usd=0.5, max_billable_seconds=10)


def test_the_longest_limit_leaves_room_for_the_stop() -> None:
    """1 USD is 1000 s of one instance, or 500 s of two; 150 s are for the stop."""
    assert longest_limit(spec(), PRICE, Budget(max_usd=1)) == pytest.approx(850)
    assert longest_limit(spec(instance_count=2), PRICE, Budget(max_usd=1)) == pytest.approx(350)
    assert longest_limit(spec(), PRICE, Budget(max_usd=1, max_billable_seconds=400)) == 250
    assert longest_limit(spec(), PRICE, Budget(max_billable_seconds=100)) == -50


def test_jobs_that_start_together_share_the_budget() -> None:
    """1000 s for two jobs are 500 s each, 350 s without the stop; for one job, 850 s."""
    budget = Budget(max_billable_seconds=1000)
    assert fitting_limit(spec(), None, budget, shortest_seconds=60, jobs=2) == 350
    assert fitting_limit(spec(), None, budget, shortest_seconds=400, jobs=2) == 850
    assert fitting_limit(spec(), None, budget, shortest_seconds=900, jobs=2) is None
    assert fitting_limit(spec(max_run_seconds=300), None, budget, shortest_seconds=900, jobs=2) == 300
    assert fitting_limit(spec(), None, Budget(), shortest_seconds=60, jobs=9) == 3600


@pytest.mark.parametrize("usd", [0.35, 0.7, 1.1, 2.3])
def test_the_worst_case_of_a_fitting_limit_is_allowed(usd: float) -> None:
    budget = Budget(max_usd=usd)
    limit = fitting_limit(spec(), PRICE, budget, shortest_seconds=60)
    assert limit is not None
    assert budget.allows(worst_case(spec(max_run_seconds=limit), PRICE))
    assert not budget.allows(worst_case(spec(max_run_seconds=limit + 1), PRICE))


@pytest.mark.parametrize(("seconds", "starts"), [(60, 1), (100, 1), (199, 1), (200, 2), (300, 3), (1000, 3)])
def test_jobs_start_until_the_next_one_does_not_fit(seconds: int, starts: int) -> None:
    """Three jobs of at most 100 s each. The first one starts with less."""
    assert certain_starts([amount(100)] * 3, Budget(max_billable_seconds=seconds)) == starts
