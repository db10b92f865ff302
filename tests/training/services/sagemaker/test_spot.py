"""Spot interruptions: the run ends like an uninterrupted one and records its cost."""

from __future__ import annotations

import pytest

from tests.support.aws.account import Account
from tests.training.services.sagemaker.conftest import Terminal

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
        assert metrics["cost/spot_interruptions"] == 1
        assert metrics["cost/billable_seconds"] < metrics["cost/training_seconds"]
        share = metrics["cost/billable_seconds"] / metrics["cost/training_seconds"]
        assert metrics["cost/spot_savings_percent"] == pytest.approx(100 * (1 - share))
