"""The verb probe: machines as arms on SageMaker, and compilers as arms on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine, text
from tests.support.aws.account import Account
from tests.support.job.tiny import TINY

LONG = {"epochs": 40, "batch_size": 4, "base_batch_size": 4, "save_strategy": "none", "logging_steps": 5}
"""Options of a training of 640 steps on 64 rows, of which a probe takes a tenth at most."""


@pytest.mark.slow
def test_machines_are_compared_by_their_projected_cost(
    command_line: CommandLine, reviews: dict[str, object], account: Account, tmp_path: Path
) -> None:
    account.make_role()
    account.jobs.faults.no_capacity.add("ml.p3.2xlarge")
    prices = tmp_path / "prices.json"
    usd = {"ml.g5.xlarge": 1.408, "ml.g4dn.xlarge": 14.08, "ml.p3.2xlarge": 3.825}
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": usd}))
    arms = [{"machine": {"instance_type": name}} for name in usd]
    there = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
    request = {**reviews, **LONG, **TINY, **there, "aws.prices": prices, "compare.arms": json.dumps(arms)}
    request |= {"save_strategy": "steps", "save_steps": 64}
    request |= {"machine.capacity_retry_minutes": "[0.01]"}
    request |= {"machine.interruptions_per_hour": 60, "machine.spot_discount_percent": 70}
    done = command_line("probe", request)
    # The arm that found no capacity failed; the others are projected all the same.
    assert done.returncode == 1, done.stdout + done.stderr
    runs = {run.data.tags["platform.instance_type"]: run for run in command_line.runs()}
    for name in ("ml.g5.xlarge", "ml.g4dn.xlarge"):
        metrics = runs[name].data.metrics
        assert metrics["projected/steps"] == 640
        assert 28 <= metrics["samples"] / 4 <= 64
        for end in ("", "_low", "_high"):
            seconds = metrics["cost/billable_seconds"] + metrics[f"projected/remaining_seconds{end}"]
            assert metrics[f"projected/billable_seconds{end}"] == pytest.approx(seconds)
            assert metrics[f"projected/usd{end}"] == pytest.approx(seconds * usd[name] / 3600)
        assert metrics["projected/checkpoints"] == 10
        assert 0 < metrics["time/seconds_per_checkpoint"] <= metrics["time/checkpoint_seconds"]
    assert "“ml.p3.2xlarge” has no projection: CapacityError: " in text(done)
    assert "“ml.g5.xlarge” would cost" in text(done)
    assert "USD" in text(done)
    printed = text(done)
    assert "On spot capacity, “ml.g5.xlarge” is expected to take" in printed
    assert "at 60 interruptions per hour and instance; on demand" in printed
    assert "The discount is 70.0 %, from machine.spot_discount_percent." in printed
    assert "The best interval between checkpoints is" in printed
