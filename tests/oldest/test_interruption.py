"""With the oldest versions, a job that is interrupted during its training resumes with bit-identical results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support.job.job_process import Job

pytestmark = pytest.mark.oldest

DYING = str(ROOT / "tests" / "support" / "job" / "dying.py")

TRAINING: dict[str, Any] = {
    "max_steps": 9,
    "eval_batch_size": 4,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "save_strategy": "steps",
    "save_steps": 2,
    "save_total_limit": 1,
    "best_metric": "eval_loss",
}


def with_checkpoints(job: Job) -> Job:
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    return job


@pytest.mark.parametrize(
    ("call", "signal_name", "code", "resumed_from"),
    [
        ("training.job.loop.job_trainer:Reporter.on_step_end:6", "SIGKILL", -9, 4),
        ("torch:save:6", "SIGKILL", -9, 2),
        ("training.job.loop.job_trainer:Reporter.on_prediction_step:2", "SIGTERM", 143, 2),
    ],
)
def test_an_interrupted_job_resumes_with_identical_results(
    job_of: Callable[..., Job], oldest_python: str, call: str, signal_name: str, code: int, resumed_from: int
) -> None:
    uninterrupted = with_checkpoints(job_of("classification", "uninterrupted")).run(python=[oldest_python], **TRAINING)
    job = with_checkpoints(job_of("classification", "cut"))
    assert job.run([DYING, call, signal_name], python=[oldest_python], **TRAINING).code == code
    ended = job.run(python=[oldest_python], **TRAINING)
    assert ended.events("start")[-1]["resumed_from_step"] == resumed_from
    assert losses(ended) == losses(uninterrupted)
    assert ended.result["metrics"]["best/step"] == uninterrupted.result["metrics"]["best/step"]
    model = "model/pytorch_model.bin"
    assert (ended.folder / model).read_bytes() == (uninterrupted.folder / model).read_bytes()


def losses(ended: Any) -> dict[tuple[int, str], float]:
    metrics = [(event["step"], event["values"]) for event in ended.events("metric")]
    return {(step, name): values[name] for step, values in metrics for name in ("loss", "eval_loss") if name in values}
