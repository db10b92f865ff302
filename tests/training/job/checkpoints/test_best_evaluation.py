"""A job saves the model of its best evaluation, even after an interruption."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from checkpoints.best_evaluation import BestEvaluation
from reporting.errors import ArgumentError
from tests.conftest import ROOT

DYING = ROOT / "tests" / "support" / "job" / "dying.py"
STEP_END = "loop.trainer_callback:Reporter.on_step_end"

TRAINING = {
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
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    ids = [[10 + at % 2, 20 + at, 30] for at in range(13)]
    channel_writer(job.folder / "validation", ids, [1 - at % 2 for at in range(13)])
    return job


def evaluations(ended: Any) -> dict[int, float]:
    events = [event for event in ended.events("metric") if "eval_loss" in event["values"]]
    return {event["step"]: event["values"]["eval_loss"] for event in events}


def check_best_is_saved(job: Any, ended: Any) -> None:
    losses, metrics = evaluations(ended), ended.result["metrics"]
    best = min(losses, key=lambda step: losses[step])
    assert list(losses) == [2, 4, 6, 8, 10, 11]
    assert best < 8
    assert metrics["best/step"] == best
    assert metrics["eval_loss"] == losses[best]
    checkpoints = job.folder / "checkpoints"
    assert {path.name for path in checkpoints.iterdir()} >= {f"checkpoint-{best}"}
    assert len(list(checkpoints.iterdir())) == 2
    weights = (job.folder / "model/model.safetensors").read_bytes()
    assert weights == (checkpoints / f"checkpoint-{best}/model.safetensors").read_bytes()
    correct = sum(
        row["count"] for row in ended.result["tables"]["confusion_matrix.json"] if row["actual"] == row["predicted"]
    )
    assert correct / 13 == pytest.approx(metrics["eval_accuracy"])


def test_the_saved_model_is_that_of_the_best_evaluation(worsening_job: Any) -> None:
    check_best_is_saved(worsening_job, worsening_job.run(**TRAINING))


@pytest.mark.slow
def test_the_best_evaluation_is_kept_across_a_restart(worsening_job: Any) -> None:
    job = worsening_job
    killed = job.run([str(DYING), f"{STEP_END}:10", "SIGKILL"], **TRAINING)
    assert killed.code == -signal.SIGKILL
    progress = json.loads((job.folder / "checkpoints/checkpoint-8/progress.json").read_text())
    assert progress["best"]["step"] < 8
    check_best_is_saved(job, job.run(**TRAINING))


def test_the_last_weights_are_not_reloaded_if_they_are_the_best(job: Any) -> None:
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    ended = job.run(**(TRAINING | {"learning_rate": 0.003, "max_steps": 6}))
    assert ended.result["metrics"]["best/step"] == 6
    assert ended.result["metrics"]["eval_loss"] == evaluations(ended)[6]
    assert "time/load_best_seconds" not in ended.result["metrics"]


def test_best_step_by_hand() -> None:
    loss, score = BestEvaluation("eval_loss"), BestEvaluation("eval_f1")
    for step, value in enumerate([float("nan"), 0.5, 0.4, 0.4, 0.6, float("nan")]):
        loss.observe({"eval_loss": value}, step)
        score.observe({"eval_f1": value}, step)
    assert (loss.step, loss.value) == (2, 0.4)
    assert (score.step, score.value) == (4, 0.6)
    assert score.metrics() == {"best/step": 4}
    assert BestEvaluation("eval_f1").metrics() == {}
    with pytest.raises(
        ArgumentError, match="best_metric is 'eval_f1', but an evaluation of this task reports only eval_loss"
    ):
        score.observe({"eval_loss": 0.1, "epoch": 1}, 6)
