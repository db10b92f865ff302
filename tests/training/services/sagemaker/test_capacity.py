"""Machines that are not to be had: the next type is taken, counted and priced, or the run says why it failed."""

from __future__ import annotations

import pytest

from tests.support.aws.account import Account
from tests.training.services.sagemaker.conftest import Terminal


@pytest.mark.slow
def test_the_type_that_was_taken_is_told_and_priced(terminal: Terminal, account: Account) -> None:
    account.jobs.troubles.no_capacity.add("ml.g5.xlarge")
    said = terminal("train", {"machine.fallback_instance_types": "ml.g4dn.xlarge"})
    assert said.code == 0, said
    [run] = terminal.runs()
    assert run.data.tags["platform.instance_type"] == "ml.g4dn.xlarge"
    # At half a dollar a second; the type that was not to be had costs a dollar.
    assert run.data.metrics["cost/usd"] == pytest.approx(0.5 * run.data.metrics["cost/billable_seconds"])
    assert float(run.data.tags["platform.price_usd_per_hour"]) == 1800


@pytest.mark.slow
def test_a_job_without_a_machine_fails_and_costs_nothing(terminal: Terminal, account: Account) -> None:
    account.jobs.troubles.no_capacity.add("ml.g5.xlarge")
    said = terminal("train")
    assert said.code == 1
    assert "ended with Capacity: CapacityError: Unable to provision requested ML compute capacity" in said.out
    [run] = terminal.runs()
    assert (run.info.status, run.data.tags["platform.failure_class"]) == ("FAILED", "Capacity")
    assert not [name for name in run.data.metrics if name.startswith("cost/")]
