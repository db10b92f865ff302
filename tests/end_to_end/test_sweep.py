"""The verb sweep, with real jobs."""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.planning.load import load
from tests.end_to_end.conftest import CommandLine, text
from tests.support.aws.account import Account
from tests.support.job import tiny
from tests.support.sweeps.postgres import postgres

TINY = {
    **tiny.TINY,
    "compilers": "none",
    "batch_sizes": "4..16",
    "calibration_seconds": 0.1,
    "target.metric": "eval_loss",
    "machine.cores": 1,
}
"""Two labels and random weights: a loss of about 0.69 from the first evaluation on."""


def by_role(runs: list[Run]) -> Counter[str]:
    return Counter(run.data.tags["platform.role"] for run in runs)


def setting(run: Run) -> tuple[str, ...]:
    return tuple(run.data.tags[f"platform.{name}"] for name in ("compiler", "batch_size", "multiplier"))


def cost(run: Run) -> float:
    return float(run.data.metrics["cost/billable_instance_seconds"])


def kept(command_line: CommandLine) -> dict[str, Any]:
    """Return the content of `sweep.json` in the sweep's parent run."""
    (parent,) = command_line.runs("group")
    path = MlflowClient(command_line.uri).download_artifacts(parent.info.run_id, "sweep.json")
    content: dict[str, Any] = json.loads(Path(path).read_text())
    return content


def check_finalists(runs: list[Run], train_command: str) -> None:
    """Check that the settings near the best one, and no others, trained a second time, and that both runs decided."""
    by_setting: dict[str, dict[tuple[str, ...], Run]] = {"trial": {}, "finalist": {}}
    for run in runs:
        if run.data.tags["platform.role"] in by_setting:
            by_setting[run.data.tags["platform.role"]][setting(run)] = run
    costs = {at: cost(run) for at, run in by_setting["trial"].items()}
    near = [at for at in sorted(costs, key=costs.__getitem__) if costs[at] <= 1.1 * min(costs.values())][:3]
    second = by_setting["finalist"]
    assert second.keys() == (set(near) if len(near) > 1 else set())
    for at, run in second.items():
        assert run.data.params["hp.seed"] != by_setting["trial"][at].data.params["hp.seed"]
        assert "platform.model_uri" not in run.data.tags
    means = {at: costs[at] * cost(run) for at, run in second.items()} or costs
    compiler, size, multiplier = min(means, key=means.__getitem__)
    words = shlex.split(train_command)
    chosen = [words[words.index(f"--{name}") + 1] for name in ("compiler", "batch_size", "learning_rate_multiplier")]
    assert [chosen[0], chosen[1], float(chosen[2])] == [compiler, size, float(multiplier)]


@pytest.mark.gate
@pytest.mark.slow
def test_a_sweep_registers_its_winner_and_continues_with_more_trials(
    command_line: CommandLine, reviews: dict[str, object]
) -> None:
    request = {**reviews, **TINY, "name": "mine", "target.value": 5, "repeats": 2, "trials": 1, "evaluations": 4}
    request |= {"save_model": "true", "pruning": "false"}  # a trial that a busy machine slows would be stopped
    done = command_line("sweep", request)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = command_line.runs()
    assert by_role(runs)["calibration"] == by_role(runs)["trial"] == 1
    assert all(run.info.status == "FINISHED" for run in runs)
    trial = next(run for run in runs if run.data.tags["platform.role"] == "trial")
    # It ended at its first evaluation: after 16 of 64 samples.
    assert trial.data.metrics["target/reached"] == 1
    assert trial.data.metrics["samples"] == 16
    assert trial.data.tags["platform.end"] == "completed"
    assert kept(command_line)["train_command"].startswith("trainfare train --experiment demo --data.train ")
    [winner_file] = (command_line.folder / "home" / "reports").glob("*/winner.yaml")
    assert load(str(winner_file), {}).data.train == str(request["data.train"])
    # Only the repeats saved models, of which MLflow keeps the best of each setting.
    logged = {run.data.tags["platform.role"] for run in runs if "platform.model_id" in run.data.tags}
    saved = {run.data.tags["platform.role"] for run in runs if "platform.model_deleted" in run.data.tags}
    assert logged == saved == {"confirmation"}
    kept_models = {setting(run) for run in runs if "platform.model_id" in run.data.tags}
    assert kept_models == {setting(run) for run in runs if run.data.tags["platform.role"] == "confirmation"}
    [group] = command_line.runs("group")
    registered = command_line("register", {"run": group.data.tags["platform.group"], "name": "swept"})
    assert registered.returncode == 0, registered.stderr
    [version] = MlflowClient(command_line.uri, registry_uri=command_line.uri).search_model_versions("name = 'swept'")
    winner = next(run for run in runs if run.info.run_id == version.run_id)
    assert winner.data.tags["platform.role"] == "confirmation"
    assert Path(version.source.removeprefix("file://"), "MLmodel").is_file()

    more = command_line("sweep", {**request, "trials": 3})
    assert more.returncode == 0, more.stdout + more.stderr
    assert "Resuming" in text(more)
    names = Counter(run.data.tags["platform.job_name"] for run in command_line.runs())
    assert set(names.values()) == {1}
    assert by_role(command_line.runs())["calibration"] == 1
    assert len(command_line.runs("group")) == 1
    check_finalists(command_line.runs(), kept(command_line)["train_command"])

    other = command_line("sweep", {**request, "batch_sizes": "4..8"})
    assert other.returncode == 2
    assert "study mine/none in sqlite" in other.stderr
    assert "has a different space.batch_sizes ([4, 8, 16], not [4, 8])" in other.stderr
    assert len(command_line.runs()) == len(names)


@pytest.mark.slow
def test_no_trial_starts_when_calibration_has_spent_the_budget(
    command_line: CommandLine, reviews: dict[str, object]
) -> None:
    """330 s are one job with 180 s of training and 150 s for its stop. After the calibration, no more such job fits."""
    request = {**reviews, **TINY, "target.value": 5, "max_billable_seconds": 330, "min_run_seconds": 180}
    done = command_line("sweep", request)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no further job fits for certain" in text(done)
    assert "The budget of 330 s ended this early" in text(done)
    assert by_role(command_line.runs()) == {"calibration": 1}


@pytest.mark.slow
def test_a_sweep_on_sagemaker_minimises_dollars(
    command_line: CommandLine, reviews: dict[str, object], account: Account, tmp_path: Path
) -> None:
    account.make_role()
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 3600}}))
    there = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
    request = {**reviews, **TINY, **there, "aws.prices": prices, "objective": "usd", "target.value": 5, "repeats": 1}
    request["finalists"] = 1
    request.pop("machine.cores")
    done = command_line("sweep", {**request, "trials": 2, "max_parallel": 2})
    assert done.returncode == 0, done.stdout + done.stderr
    runs = command_line.runs()
    # At a dollar a second a job costs what it bills.
    for run in runs:
        assert run.data.metrics["cost/usd"] == run.data.metrics["cost/billable_instance_seconds"]
    assert len(account.jobs.names()) == len(runs)
    trials = [run for run in runs if run.data.tags["platform.role"] == "trial"]
    least = min(run.data.metrics["cost/usd"] for run in trials)
    best = [setting(run) for run in trials if run.data.metrics["cost/usd"] == least]
    # What the best costs is what its repeat says, not the trial that it was chosen by.
    repeats = [run for run in runs if run.data.tags["platform.role"] == "confirmation" and setting(run) in best]
    (parent,) = command_line.runs("group")
    best_usd = parent.data.metrics["sweep/best_usd"]
    assert any(best_usd == pytest.approx(run.data.metrics["cost/usd"]) for run in repeats)
    assert " (sweep " in parent.info.run_name
    assert parent.data.metrics["sweep/paid_usd"] == sum(run.data.metrics["cost/usd"] for run in runs)
    assert "USD" in text(done)


@pytest.mark.gate
@pytest.mark.slow
def test_no_point_is_trained_twice_when_a_worker_dies(
    command_line: CommandLine, reviews: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres() as url:
        monkeypatch.setenv("TRAINFARE_SWEEP_STORAGE", url)
        # Pruning depends on measured times, and would end a trial as KILLED.
        request = {**reviews, **TINY, "worse_by": 5, "target": "null", "repeats": 1, "trials": 3, "pruning": "false"}
        request.pop("target.metric")
        first, second = (command_line.start("sweep", request) for _ in range(2))
        deadline = time.monotonic() + 240
        while by_role(command_line.runs())["trial"] < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        output, _ = second.communicate(timeout=500)
        assert second.returncode == 0, output
    assert len(command_line.runs("group")) == 1
    names = Counter(run.data.tags["platform.job_name"] for run in command_line.runs())
    assert set(names.values()) == {1}
    assert {run.info.status for run in command_line.runs()} == {"FINISHED"}


LOOP = """\
import argparse, time
parser = argparse.ArgumentParser()
for name in ("batch-size", "seed", "worth"):
    parser.add_argument(f"--{name}", type=int)
args = parser.parse_args()
for step in range(1, 2_001):
    time.sleep(0.02)
    print(f"samples {step * args.batch_size}", flush=True)
    print(f"accuracy {min(1.0, step * args.batch_size * args.worth / 400)}", flush=True)
"""
SWEPT = """\
script:
  source: code
  entry_point: loop.py
  hyperparameters: {batch-size: $batch_size, seed: $seed, worth: 1}
  metrics: {samples: 'samples ([0-9]+)', eval_accuracy: 'accuracy ([0-9.]+)'}
target: {metric: eval_accuracy, value: 0.5}
batch_size: 4
machine: {cores: 1}
sweep: {batch_sizes: 4..8, hyperparameters: {worth: [1, 2]}, trials: 3, finalists: 1, repeats: 0, pruning: false}
"""


@pytest.mark.slow
def test_a_script_is_swept_to_its_target_and_resumes_after_a_kill(command_line: CommandLine, tmp_path: Path) -> None:
    """Each of up to 2,000 steps is worth its batch size, once or twice, of the 200 that reach the target."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "loop.py").write_text(LOOP)
    (tmp_path / "own.yaml").write_text(SWEPT)
    killed = command_line.start("sweep", {"experiment": tmp_path / "own.yaml"})
    deadline = time.monotonic() + 120
    while not by_role(command_line.runs())["trial"] and time.monotonic() < deadline:
        time.sleep(0.1)
    killed.kill()
    killed.communicate()
    done = command_line("sweep", {"experiment": tmp_path / "own.yaml"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resuming" in text(done)
    runs = command_line.runs()
    assert set(Counter(run.data.tags["platform.job_name"] for run in runs).values()) == {1}
    assert {run.info.status for run in runs} == {"FINISHED"}
    trials = [run for run in runs if run.data.tags["platform.role"] == "trial"]
    assert trials[0].data.params["hp.worth"] == "1"
    assert len({(setting(run), run.data.params["hp.worth"]) for run in trials}) == 3
    stopped = []
    for run in runs:
        size, worth = (int(run.data.params[f"hp.{name}"]) for name in ("batch_size", "worth"))
        metrics = run.data.metrics
        # By hand: 200 samples, or 100 that are worth twice.
        assert (metrics["target/reached"], metrics["target/samples"]) == (1, -(-200 // worth // size) * size)
        assert metrics["target/samples"] <= metrics["samples"]
        stopped.append(metrics["samples"] < 2_000 * size)
        assert 0 < metrics["target/seconds"] < metrics["target/billable_seconds"] < metrics["cost/billable_seconds"]
    assert any(stopped)  # not all: a trial without a launcher trains to its end
    best = min(trials, key=lambda run: run.data.metrics["target/billable_seconds"])
    words = shlex.split(kept(command_line)["train_command"])
    chosen = [words[words.index(f"--{name}") + 1] for name in ("batch_size", "script.hyperparameters.worth")]
    assert chosen == [best.data.params["hp.batch_size"], best.data.params["hp.worth"]]
