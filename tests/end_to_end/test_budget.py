"""Budgets with real jobs: a script that sleeps, so that every job has about the same cost."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.end_to_end.conftest import CommandLine, text
from tests.support.aws.account import Account
from tracking.queries.job_tables import tags_of

SLEEPER = """\
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float)
parser.add_argument("--seed", type=int)
time.sleep(parser.parse_args().seconds)
print("loss=0.5")
"""

EXPERIMENT = """\
script:
  source: code
  entry_point: sleep.py
  hyperparameters: {seconds: 20, seed: $seed}
  metrics: {loss: 'loss=([0-9.]+)'}
machine: {cores: 1, max_run_seconds: 40}
compare:
  arms: [{script.hyperparameters.seconds: 20}, {script.hyperparameters.seconds: 20.5}]
  repeats: 2
  looks: [2]
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sleep.py").write_text(SLEEPER)
    (tmp_path / "sleeper.yaml").write_text(EXPERIMENT)
    return {"experiment": str(tmp_path / "sleeper.yaml")}


def seconds_of(runs: list[Run]) -> list[float]:
    return [run.data.metrics["cost/billable_instance_seconds"] for run in runs]


@pytest.mark.gate
@pytest.mark.slow
def test_a_budget_for_two_jobs_holds_when_the_launcher_is_killed(
    command_line: CommandLine, sleeper: dict[str, object]
) -> None:
    """Each job takes 20 s and a little. 150 s are kept for the stop of a job, so 60 s of 210 s are for training: two
    jobs, and too little for a third, which needs a fifth more than the longest of its arm."""
    request = {**sleeper, "max-billable-seconds": 210}
    launcher = command_line.start("compare", request)
    while not any("platform.described" in run.data.tags for run in command_line.runs()):
        assert launcher.poll() is None
        time.sleep(0.2)
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    done = command_line("compare", sleeper)  # without a budget of its own: the group keeps its budget
    assert "at worst these jobs cost 760 s (4 jobs" not in text(done)
    assert "Budget of 210 s: 0.0 s spent, 210 s left." in text(done)
    assert "2 jobs that were due did not start, because they did not certainly fit." in text(done)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = command_line.runs()
    assert [run.info.status for run in runs] == ["FINISHED"] * 2
    assert sum(seconds_of(runs)) < 210
    [group] = command_line.runs("group")
    assert group.info.status == "FINISHED"
    end = json.loads(group.data.tags["platform.budget_end"])
    assert end["not_started"] == 2
    assert end["spent"]["seconds"] == pytest.approx(sum(seconds_of(runs)))
    assert "The budget of 210 s ended this early" in group.data.tags["mlflow.note.content"]
    assert group.data.metrics["cost/billable_instance_seconds"] == pytest.approx(sum(seconds_of(runs)))
    assert group.data.metrics["budget/left_seconds"] == pytest.approx(210 - sum(seconds_of(runs)))
    points = MlflowClient(command_line.uri).get_metric_history(group.info.run_id, "cost/billable_instance_seconds")
    assert len(points) > 2  # it was logged while the jobs ran


@pytest.mark.gate
@pytest.mark.slow
def test_two_launchers_share_one_budget(command_line: CommandLine, sleeper: dict[str, object]) -> None:
    """There is room for two jobs at a time: 2 x (12 + 150) s. Each launcher would run four."""
    short = {"compare.arms": "[{script.hyperparameters.seconds: 6}, {script.hyperparameters.seconds: 6.5}]"}
    request = {**sleeper, **short, "compare.parallel": 4, "machine.max_run_seconds": 12, "max_billable_seconds": 330}
    launchers = [command_line.start("compare", request) for _ in range(2)]
    outputs = [launcher.communicate(timeout=560) for launcher in launchers]
    assert any(launcher.returncode == 0 for launcher in launchers), outputs
    runs = command_line.runs()
    assert len({run.data.tags["platform.job_name"] for run in runs}) == len(runs) == 4
    assert most_at_once(runs) <= 2
    assert any("waits until others have ended" in output for output, _ in outputs)


def most_at_once(runs: list[Run]) -> int:
    """Return the most jobs that were billed at the same time."""
    spans = []
    for run in runs:
        began = float(tags_of(run)["platform.training_start_time"])
        spans.append((began, began + run.data.metrics["cost/billable_seconds"]))
    return max(sum(start <= at < end for start, end in spans) for at, _ in spans)


@pytest.mark.slow
def test_a_job_that_reaches_its_lowered_limit_failed_because_of_the_budget(
    command_line: CommandLine, sleeper: dict[str, object]
) -> None:
    """156 s are 6 s of training and 150 s for the stop; the job would take 20 s."""
    done = command_line("train", {**sleeper, "max_billable_seconds": 156, "min_run_seconds": 5})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the budget lowers its time limit from 40 to 6 s" in text(done)
    [run] = command_line.runs()
    assert run.data.tags["platform.failure_class"] == "Budget"
    assert run.data.tags["platform.max_run_seconds"] == "6"
    assert "to which the budget had lowered its limit of 40 seconds" in run.data.tags["platform.failure_message"]
    assert 6 <= seconds_of([run])[0] < 156


def test_a_budget_that_cannot_hold_starts_nothing(command_line: CommandLine, sleeper: dict[str, object]) -> None:
    done = command_line("compare", {**sleeper, "max_billable_seconds": 100})
    assert done.returncode == 2, done.stdout
    assert "with 40 s of training, 150 s to stop it, it may cost 190 s." in done.stderr
    assert command_line.runs("group") == []


@pytest.mark.gate
@pytest.mark.slow
def test_dollars_limit_the_time_of_a_sagemaker_job(
    command_line: CommandLine, sleeper: dict[str, object], account: Account, tmp_path: Path
) -> None:
    """At a dollar a second, 390 USD are two jobs with 45 s each and 150 s for the stop. Two machines follow them."""
    account.make_role()
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 3600.0}}))
    there = {
        "service": "sagemaker",
        "machine.instance_type": "ml.g5.xlarge",
        "aws.role": "trainer",
        "machine.cores": "null",
        "machine.max_run_seconds": 60,
    }
    arms = "[{script.hyperparameters.seconds: 0.5}, {script.hyperparameters.seconds: 1}]"
    request = {**sleeper, **there, "compare.arms": arms, "compare.parallel": 2, "compare.repeats": 1}
    budget = {"max-usd": 390, "min_run_seconds": 45}
    unpriced = command_line("compare", {**request, **budget, "aws.prices": _empty(tmp_path)})
    assert unpriced.returncode == 2
    table = '{"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 1.41}}'
    reason = f"the price of ml.g5.xlarge is unknown: set aws.prices to a JSON file such as {table}. Without"
    assert f"max_usd is 390, but {reason}" in unpriced.stderr
    left = command_line("compare", {**request, **budget, "aws.prices": prices, "wait": "false"})
    assert left.returncode == 0, left.stdout + left.stderr
    assert "at worst these jobs cost 420.00 USD (2 jobs, each up to its limit of 60 s and 150 s to stop)" in text(left)
    assert "To fit all jobs, raise the budget" in text(left)
    limits = {run.data.tags["platform.max_run_seconds"] for run in command_line.runs()}
    assert limits == {"45"}
    for name in account.jobs.names():
        assert account.jobs.request(name)["StoppingCondition"]["MaxRuntimeInSeconds"] == 45
    [group] = command_line.runs("group")
    elsewhere = [replace(command_line, folder=tmp_path / name) for name in ("one", "two")]
    launchers = [each.start("attach", {"group": group.data.tags["platform.group"]}) for each in elsewhere]
    outputs = [launcher.communicate(timeout=560)[0] for launcher in launchers]
    assert any(launcher.returncode == 0 for launcher in launchers), outputs
    assert any("Budget of 390.00 USD" in output for output in outputs)
    assert sum(run.data.metrics["cost/usd"] for run in command_line.runs()) < 390
    [group] = command_line.runs("group")
    assert 0 < group.data.metrics["budget/left_usd"] < 390


def _empty(tmp_path: Path) -> Path:
    table = tmp_path / "empty.json"
    table.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {}}))
    return table
