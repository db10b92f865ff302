"""Missing capacity: the next instance type is used and priced, or the run records why it failed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.aws.account import Account
from tests.support.services.following import until
from tests.training.services.sagemaker.conftest import Terminal


@pytest.mark.slow
def test_the_fallback_type_is_recorded_and_priced(terminal: Terminal, account: Account) -> None:
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")
    output = terminal("train", {"machine.fallback_instance_types": "ml.g4dn.xlarge"})
    assert output.code == 0, output
    [run] = terminal.runs()
    assert run.data.tags["platform.instance_type"] == "ml.g4dn.xlarge"
    # This type costs half a dollar per second; the unavailable one costs a dollar.
    assert run.data.metrics["cost/usd"] == pytest.approx(0.5 * run.data.metrics["cost/billable_seconds"])
    assert float(run.data.tags["platform.price_usd_per_hour"]) == 1800


@pytest.mark.slow
def test_a_job_without_capacity_fails_and_costs_nothing(terminal: Terminal, account: Account) -> None:
    """It is tried as often as there are pauses, and one run records all attempts."""
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")
    output = terminal("train", {"max_usd": 10_000_000})
    assert output.code == 1
    assert "failed: CapacityError: Unable to provision requested ML compute capacity" in output.out
    assert "It cost nothing, and starts again in 0 s (attempt 2 of 3)" in output.out
    [run] = terminal.runs()
    tags = run.data.tags
    assert (run.info.status, tags["platform.failure_class"]) == ("FAILED", "Capacity")
    assert not [name for name in run.data.metrics if name.startswith("cost/")]
    name = tags["platform.job_name"]
    assert account.jobs.names() == [name, f"{name}-c1", f"{name}-c2"]
    assert (tags["platform.service_name"], tags["platform.capacity_retries"]) == (f"{name}-c2", "2")
    requests = [account.jobs.request(each) for each in account.jobs.names()]
    assert all(_without_name(each) == _without_name(requests[0]) for each in requests)


@pytest.mark.slow
def test_a_job_gets_its_budget_once(terminal: Terminal, account: Account) -> None:
    """The second attempt has the time limit of the first, to which the budget has lowered it."""
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")

    def provide() -> None:
        until(lambda: bool(account.jobs.names()))
        account.jobs.faults.no_capacity.clear()

    thread = threading.Thread(target=provide, daemon=True)
    thread.start()
    # The instance costs a dollar per second.
    output = terminal("train", {"max_usd": 1000})
    thread.join()
    assert output.code == 0, output
    first, *later = (account.jobs.request(name)["StoppingCondition"] for name in account.jobs.names())
    assert later
    assert all(each == first for each in later)
    assert first["MaxRuntimeInSeconds"] < 1000
    [run] = terminal.runs()
    assert run.info.status == "FINISHED"
    assert len(terminal.curve(run)) == 8
    [group] = terminal.runs("group")
    assert group.data.metrics["cost/usd"] == pytest.approx(run.data.metrics["cost/usd"])


def _without_name(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without the name of its job, which the toolkit gets as well."""
    hyperparameters = {k: v for k, v in request["HyperParameters"].items() if k != "sagemaker_job_name"}
    return {**request, "TrainingJobName": "", "HyperParameters": hyperparameters}
