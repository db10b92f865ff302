"""The cost of a warm pool is recorded in the run of the job that left the pool, once it is known."""

from __future__ import annotations

import pytest

from tests.support.aws.account import Account
from tests.training.services.sagemaker.conftest import Terminal
from tracking.recording.costs import record_warm_pool_costs
from tracking.server.store import open_store
from training.services.sagemaker.service import SageMakerService


@pytest.mark.slow
def test_each_run_records_the_cost_of_its_pool(terminal: Terminal, account: Account) -> None:
    fields = {"machine.keep_alive_seconds": 600}
    assert terminal("train", fields).code == 0
    [first] = terminal.runs()
    assert first.data.tags["platform.warm_pool"] == "Available"
    assert "cost/warm_pool_seconds" not in first.data.metrics
    assert terminal("train", {**fields, "seed": 43}).code == 0
    first, second = terminal.runs()
    assert first.data.tags["platform.warm_pool"] == "Reused"
    idle_seconds = first.data.metrics["cost/warm_pool_seconds"]
    assert idle_seconds >= 1
    # The price is a dollar per second; the cost of the job itself is separate.
    assert first.data.metrics["cost/warm_pool_usd"] == idle_seconds
    assert first.data.metrics["cost/usd"] == first.data.metrics["cost/billable_seconds"]
    assert second.data.tags["platform.warm_pool"] == "Available"
    account.jobs.end_pools()
    store = open_store()
    for _ in range(2):
        record_warm_pool_costs(store, SageMakerService())
    first, second = terminal.runs()
    assert second.data.tags["platform.warm_pool"] == "Terminated"
    assert (
        len(terminal.curve(first, "cost/warm_pool_seconds"))
        == len(terminal.curve(second, "cost/warm_pool_seconds"))
        == 1
    )
