"""The verb attach: any machine that reaches the tracking server can follow a group."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.aws.account import Account
from tests.support.job.tiny import TINY
from tracking.groups.group import find_group
from tracking.groups.plan_file import read_plan
from tracking.server.store import open_store

TWO = {"compare.arms": "[{batch_size: 8}, {batch_size: 16}]", "compare.repeats": 1, "save_model": "false"}


@pytest.mark.gate
@pytest.mark.slow
def test_another_machine_follows_the_group_and_starts_its_remaining_jobs(
    command_line: CommandLine, reviews: dict[str, object], account: Account, tmp_path: Path
) -> None:
    account.make_role()
    there = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
    left = command_line("compare", {**reviews, **TINY, **TWO, **there, "wait": "false"})
    assert left.returncode == 0, left.stdout + left.stderr
    [group_id] = {run.data.tags["platform.group"] for run in command_line.runs()}
    assert f"trainfare attach --group {group_id}" in left.stdout
    assert len(account.jobs.names()) == 1
    # Nothing of the first machine's is there: neither its home nor the experiment's files.
    for name in ("data.train", "data.validation"):
        Path(str(reviews[name])).unlink()
    elsewhere = replace(command_line, folder=tmp_path / "elsewhere")
    refused = elsewhere("attach", {"group": group_id})
    assert refused.returncode == 2
    assert "--trust" in refused.stderr
    assert "It would start 1 job with:\n  command: python train.py " in refused.stdout
    assert len(account.jobs.names()) == 1
    done = elsewhere("attach", {"group": group_id, "trust": "true"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert [run.info.status for run in command_line.runs()] == ["FINISHED"] * 2
    assert [run.info.status for run in command_line.runs("group")] == ["FINISHED"]
    assert all(run.data.metrics["eval_loss"] > 0 for run in command_line.runs())
    assert len(account.jobs.names()) == 2
    assert "batch 16" in done.stdout
    again = elsewhere("attach", {"group": group_id})
    assert again.returncode == 2
    assert (
        again.stderr == f"error: group {group_id} has ended: `trainfare report --group {group_id}` shows its result.\n"
    )


@pytest.mark.gate
@pytest.mark.slow
def test_a_local_group_can_be_attached_to_only_from_its_own_home(command_line: CommandLine) -> None:
    """The plan is read unchanged. From another home, attach is refused."""
    loop = {"experiment": "torch_loop", "wait": "false", "compare.arms": "[{batch_size: 8}]", "compare.repeats": 2}
    started = command_line("compare", loop)
    assert started.returncode == 0, started.stdout + started.stderr
    [run] = command_line.runs()
    group_id = run.data.tags["platform.group"]
    store = open_store(command_line.uri)
    plan, is_own = read_plan(
        store, find_group(store, group_id=group_id, experiment_name=""), command_line.folder / "home"
    )
    assert is_own
    assert [job.run_name for job in plan.jobs] == [f"{plan.jobs[0].arm}, repeat {n}" for n in (1, 2)]
    assert plan.jobs[0].spec.hyperparameters["batch-size"] == 8
    elsewhere = replace(command_line, folder=command_line.folder / "elsewhere")
    refused = elsewhere("attach", {"group": group_id})
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: group {group_id} writes to {command_line.folder / 'home'}")
    # The state of an earlier release has no digest. The same command makes one, because it plans the same again.
    shutil.rmtree(command_line.folder / "home" / "plans")
    assert command_line("attach", {"group": group_id}).returncode == 2
    assert command_line("compare", loop).returncode == 0
    done = command_line("attach", {"group": group_id})
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.info.status for each in command_line.runs()] == ["FINISHED"] * 2
