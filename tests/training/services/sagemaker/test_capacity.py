"""Missing capacity: the next instance type is used and priced, or the run records why it failed."""

from __future__ import annotations

import pytest

from tests.support.aws.account import Account
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
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")
    output = terminal("train")
    assert output.code == 1
    assert "ended with Capacity: CapacityError: Unable to provision requested ML compute capacity" in output.out
    [run] = terminal.runs()
    assert (run.info.status, run.data.tags["platform.failure_class"]) == ("FAILED", "Capacity")
    assert not [name for name in run.data.metrics if name.startswith("cost/")]
