"""A training that ends when it reaches its target."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from checkpoints.target import Target
from tests.conftest import ROOT
from tests.support.job.job_process import TORCHRUN

DYING = ROOT / "tests" / "support" / "job" / "dying.py"

# 50 rows in batches of 8 are 7 steps per epoch, 14 in total. Any loss with two classes is below 100.
TRAINING = {"epochs": 2, "eval_strategy": "steps", "eval_steps": 3, "steady_after_steps": 1, "logging_steps": 2}
REACHED = {"target_metric": "eval_loss", "target_value": 100, "target_stop": True}


def evaluations(ended: Any) -> list[int]:
    return [event["step"] for event in ended.events("metric") if "eval_loss" in event["values"]]


@pytest.mark.parametrize(
    ("metric", "direction", "value", "values", "reached"),
    [
        ("eval_accuracy", None, 0.8, [0.7, 0.8, 0.9], 1),
        ("eval_loss", None, 0.5, [0.7, 0.4], 1),
        ("eval_loss", "max", 0.5, [0.4, 0.7], 1),
        ("eval_accuracy", "min", 0.8, [0.9, 0.85, 0.8], 2),
        ("loss", None, 0.5, [0.7, 0.6], None),
    ],
)
def test_the_first_value_that_reaches_the_target_counts(
    metric: str, direction: str | None, value: float, values: list[float], reached: int | None
) -> None:
    target = Target(metric, value, direction)
    for at, logged in enumerate(values):
        target.observe({metric: logged, "other": 9.0}, seconds=10.0 * at, samples=100 * at)
    expected = {"target/reached": 1, "target/seconds": 10.0 * (reached or 0), "target/samples": 100 * (reached or 0)}
    assert target.metrics() == ({"target/reached": 0} if reached is None else expected)


def test_training_ends_with_the_evaluation_that_reaches_the_target(job: Any) -> None:
    ended = job.run(**TRAINING, **REACHED)
    result, metrics = ended.result, ended.result["metrics"]
    assert result["steps"] == 3
    assert evaluations(ended) == [3]
    assert (metrics["target/reached"], metrics["target/samples"]) == (1, 24)
    # Steps 2 and 3, without the time of the evaluation.
    assert metrics["throughput/steady_samples_per_second"] == pytest.approx(16 / metrics["time/train_steady_seconds"])
    assert metrics["eval_accuracy"] >= 0
    assert (job.folder / "model/model.safetensors").exists()


@pytest.mark.slow
def test_training_ends_with_the_logged_loss_that_reaches_the_target(job: Any) -> None:
    ended = job.run(**{**TRAINING, "eval_strategy": "epoch"}, **{**REACHED, "target_metric": "loss"}, save_model=False)
    # The first step's loss is logged and reaches the target. The weights after this step are evaluated once.
    assert ended.result["steps"] == 1
    assert evaluations(ended) == [1]
    assert ended.result["metrics"]["target/samples"] == 8


@pytest.mark.slow
def test_a_training_that_misses_its_target_runs_to_its_end(job: Any) -> None:
    ended = job.run(**TRAINING, **{**REACHED, "target_value": -1})
    assert ended.result["steps"] == 14
    assert ended.result["metrics"]["target/reached"] == 0


@pytest.mark.slow
def test_a_job_restarted_at_its_target_takes_no_step(job: Any) -> None:
    """The job is killed after the checkpoint that reached the target: only evaluation and model are missing."""
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    arguments = {**TRAINING, **REACHED, "save_strategy": "steps", "save_steps": 3}
    dying = [str(DYING), "training_run:_save:1", "SIGKILL"]
    assert job.run(dying, **arguments).code == -signal.SIGKILL
    ended = job.run(**arguments)
    assert ended.events("start")[-1]["resumed_from_step"] == 3
    assert ended.result["steps"] == 3
    assert ended.result["metrics"]["target/samples"] == 24
    assert (job.folder / "model/model.safetensors").exists()


@pytest.mark.slow
def test_processes_end_at_the_target_together(job: Any) -> None:
    ended = job.run(TORCHRUN, **{**TRAINING, "batch_size": 4}, **REACHED)
    assert ended.result["steps"] == 3
    assert evaluations(ended) == [3]
    assert ended.result["metrics"]["target/samples"] == 24
