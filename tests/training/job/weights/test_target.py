"""A training that ends when it reaches its target, or saves the model of its best evaluation."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.support.job.job_process import DYING, TORCHRUN
from training.job.tasks import METRICS
from training.job.weights.checkpoints import BestEvaluation, Target, direction_of

# 50 rows in batches of 8 are 7 steps per epoch, 14 in total. Any loss with two classes is below 100.
TRAINING = {"epochs": 2, "eval_strategy": "steps", "eval_steps": 3, "steady_after_steps": 1, "logging_steps": 2}
REACHED = {"target_metric": "eval_loss", "target_value": 100, "target_stop": True}


@pytest.mark.parametrize(
    ("metric", "direction", "value", "values", "reached"),
    [
        ("eval_accuracy", None, 0.8, [0.7, 0.8, 0.9], 1),
        ("eval_loss", None, 0.5, [0.7, 0.4], 1),
        ("eval_loss", "max", 0.5, [0.4, 0.7], 1),
        ("eval_accuracy", "min", 0.8, [0.9, 0.85, 0.8], 2),
        ("eval_perplexity", None, 0.5, [0.7, 0.6], None),
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


def test_the_usual_direction_is_the_declared_one() -> None:
    assert {each.name: direction_of(each.name) for each in METRICS} == {each.name: each.direction for each in METRICS}


def test_training_ends_with_the_evaluation_that_reaches_the_target(job: Any) -> None:
    ended = job.run(**TRAINING, **REACHED)
    result, metrics = ended.result, ended.result["metrics"]
    assert result["steps"] == 3
    assert list(losses_of(ended)) == [3]
    assert (metrics["target/reached"], metrics["target/samples"]) == (1, 24)
    # Steps 2 and 3, without the time of the evaluation.
    assert metrics["throughput/steady_samples_per_second"] == pytest.approx(16 / metrics["time/train_steady_seconds"])
    assert metrics["eval_accuracy"] >= 0
    assert (job.folder / "model/model.safetensors").exists()


@pytest.mark.slow
def test_a_job_restarted_at_its_target_takes_no_step(job: Any) -> None:
    """The job is killed after the checkpoint that reached the target: only evaluation and model are missing."""
    job.with_checkpoints()
    arguments = {**TRAINING, **REACHED, "save_strategy": "steps", "save_steps": 3}
    dying = [DYING, "training.job.training_run:_save:1", "SIGKILL"]
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
    assert list(losses_of(ended)) == [3]
    assert ended.result["metrics"]["target/samples"] == 24


STEP_END = "training.job.loop.job_trainer:Reporter.on_step_end"

BEST_TRAINING = {
    "learning_rate": 0.02,
    "lr_scheduler": "constant",
    "max_steps": 11,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "save_strategy": "steps",
    "save_steps": 2,
    "save_total_limit": 1,
    "best_metric": "eval_loss",
}


@pytest.fixture
def worsening_job(job: Any, channel_writer: Any) -> Any:
    """A job with swapped validation labels: the better it learns, the worse it scores."""
    job.with_checkpoints()
    ids = [[10 + at % 2, 20 + at, 30] for at in range(13)]
    channel_writer(job.folder / "validation", ids, [1 - at % 2 for at in range(13)])
    return job


def losses_of(ended: Any) -> dict[int, float]:
    events = [event for event in ended.events("metric") if "eval_loss" in event["values"]]
    return {event["step"]: event["values"]["eval_loss"] for event in events}


def check_best_is_saved(job: Any, ended: Any) -> None:
    losses, metrics = losses_of(ended), ended.result["metrics"]
    best = min(losses, key=lambda step: losses[step])
    assert list(losses) == [2, 4, 6, 8, 10, 11]
    assert best < 8
    assert metrics["best/step"] == best
    assert metrics["eval_loss"] == losses[best]
    checkpoints = job.folder / "checkpoints"
    assert len(list(checkpoints.iterdir())) == 2
    assert ended.weights == (checkpoints / f"checkpoint-{best}/model.safetensors").read_bytes()
    correct = sum(
        row["count"] for row in ended.result["tables"]["confusion_matrix.json"] if row["actual"] == row["predicted"]
    )
    assert correct / 13 == pytest.approx(metrics["eval_accuracy"])


def test_the_saved_model_is_that_of_the_best_evaluation(worsening_job: Any) -> None:
    check_best_is_saved(worsening_job, worsening_job.run(**BEST_TRAINING))


@pytest.mark.slow
def test_the_best_evaluation_is_kept_across_a_restart(worsening_job: Any) -> None:
    job = worsening_job
    killed = job.run([DYING, f"{STEP_END}:10", "SIGKILL"], **BEST_TRAINING)
    assert killed.code == -signal.SIGKILL
    progress = json.loads((job.folder / "checkpoints/checkpoint-8/progress.json").read_text())
    assert progress["best"]["step"] < 8
    check_best_is_saved(job, job.run(**BEST_TRAINING))


def test_best_step_by_hand() -> None:
    loss, score = BestEvaluation("eval_loss"), BestEvaluation("eval_f1")
    for step, value in enumerate([float("nan"), 0.5, 0.4, 0.4, 0.6, float("nan")]):
        loss.observe({"eval_loss": value}, step)
        score.observe({"eval_f1": value}, step)
    assert (loss.step, loss.value) == (2, 0.4)
    assert (score.step, score.value) == (4, 0.6)
    assert score.metrics() == {"best/step": 4}
    assert BestEvaluation("eval_f1").metrics() == {}
