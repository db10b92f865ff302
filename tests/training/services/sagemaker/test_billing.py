"""Spot interruptions: the run ends like an uninterrupted one and records its cost."""

from __future__ import annotations

import pytest

from tests.support.aws.account import Account
from tests.training.services.sagemaker.conftest import Terminal
from tracking.recording.metrics import record_warm_pool_costs
from tracking.server.store import open_store
from training.services.sagemaker.service import SageMakerService

SPOT = {
    "machine.spot": "true",
    "machine.max_wait_seconds": 172_800,
    "save_strategy": "steps",
    "save_steps": 4,
    "save_total_limit": 8,
}


@pytest.mark.gate
@pytest.mark.slow
def test_an_interrupted_job_ends_like_an_uninterrupted_one(terminal: Terminal, account: Account) -> None:
    assert terminal("train").code == 0
    faults = account.jobs.faults
    # At that time S3 has the checkpoint's list of files, and half of one of the listed files.
    faults.interrupted_at.append("checkpoint-8/rng_state.pth")
    outputs = [terminal("train", SPOT)]
    faults.warned_at.append("checkpoint-4/progress.json")
    outputs.append(terminal("train", SPOT))
    assert [output.code for output in outputs] == [0, 0], outputs
    assert ["checkpoint-8 is incomplete and is skipped" in output.out for output in outputs] == [True, False]
    whole, *interrupted = terminal.runs()
    assert len(interrupted) == 2
    for run in interrupted:
        for metric in ("loss", "learning_rate", "grad_norm", "eval_loss"):
            assert terminal.curve(run, metric) == terminal.curve(whole, metric)
        assert [step for step, _ in terminal.curve(run)] == list(range(1, 9))
        assert dict(terminal.curve(run, "samples")) == {step: 4 * step for step in range(1, 9)}
        metrics = run.data.metrics
        assert metrics["eval_loss"] == whole.data.metrics["eval_loss"]
        assert metrics["cost/interruptions"] == 1
        assert metrics["cost/billable_seconds"] < metrics["cost/training_seconds"]
        share = metrics["cost/billable_seconds"] / metrics["cost/training_seconds"]
        assert metrics["cost/spot_savings_percent"] == pytest.approx(100 * (1 - share))


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
