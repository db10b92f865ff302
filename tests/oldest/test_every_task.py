"""Every task's job runs with the oldest versions, on channels and a model that the newest versions wrote."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.job.job_process import Job
from training.job.tasks import TASKS

pytestmark = pytest.mark.oldest

WITHOUT_PACKAGES = sorted(name for name, task in TASKS.items() if not task.packages)
"""Tasks that old images can train: a package that a task brings needs a newer Python than theirs (`job_rules.py`)."""
SETTINGS = {"epochs": 4, "padding": "longest", "eval_strategy": "epoch", "learning_rate": 5e-3, "max_length": 24}


def run(job: Job, python: Sequence[str], task: str, **arguments: Any) -> Any:
    ended = job.run(python=python, **{"task": task, **SETTINGS, **arguments})
    assert ended.code == 0, ended.output[-3000:]
    # Old versions of transformers cannot read this format, so the job must.
    assert [path.suffix for path in _weights(job)] == [".safetensors"]
    return ended


def _weights(job: Job) -> list[Path]:
    return [*Path(job.environment["SM_CHANNEL_MODEL"]).glob("*model*.[sb]*")]


@pytest.mark.parametrize("task", WITHOUT_PACKAGES)
def test_the_oldest_versions_learn_like_the_newest(task: str, job_of: Callable[..., Job], oldest_python: str) -> None:
    oldest, newest = (
        run(job_of(task, name), [python], task)
        for name, python in (("oldest", oldest_python), ("newest", sys.executable))
    )
    versions = [ended.events("start")[0]["versions"] for ended in (oldest, newest)]
    assert versions[0]["transformers"] < "4.24"
    assert versions[1]["transformers"] > "5"
    # Old versions of Trainer round logged numbers to four digits.
    assert oldest.losses == pytest.approx(newest.losses, abs=1e-4)
    assert oldest.losses[-1] < oldest.losses[0] - 0.01
    results = [ended.result["metrics"] for ended in (oldest, newest)]
    scores = [{name: value for name, value in metrics.items() if _is_score(name)} for metrics in results]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5, abs=1e-4)
    assert scores[0]["eval_loss"] > 0
    assert (oldest.folder / "model" / "pytorch_model.bin").exists()


def _is_score(name: str) -> bool:
    return name.startswith("eval_") and not name.endswith(("_runtime", "_per_second"))


@pytest.mark.parametrize("task", WITHOUT_PACKAGES)
def test_the_oldest_versions_resume_a_training(task: str, job_of: Callable[..., Job], oldest_python: str) -> None:
    job = job_of(task, "job")
    saving = {"save_strategy": "steps", "save_steps": 2, "padding": "buckets", "bucket_lengths": "12,24"}
    first = run(job, [oldest_python], task, **saving)
    uninterrupted = first.losses
    for folder in (job.folder / "checkpoints").iterdir():
        if int(folder.name.rpartition("-")[2]) > 4:
            shutil.rmtree(folder)
    resumed = run(job, [oldest_python], task, **saving)
    assert resumed.events("start")[-1]["resumed_from_step"] == 4
    assert resumed.losses == [*uninterrupted, *uninterrupted[4:]]
    assert len(uninterrupted) > 6


def test_two_processes_train_like_the_newest(job_of: Callable[..., Job], oldest_python: str, tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    (tmp_path / "own.py").write_text("def score(rows):\n    return sum(max(row['scores'].values()) for row in rows)\n")
    own = {"quality_function": "own.py:score", "quality_digest": "0"}
    jobs = {name: job_of("classification", name) for name in ("oldest", "newest")}
    for job in jobs.values():
        job.environment["SM_CHANNEL_QUALITY"] = str(tmp_path)
    oldest, newest = (
        run(jobs[name], [python, *launcher], "classification", batch_size=4, **own)
        for name, python in (("oldest", oldest_python), ("newest", sys.executable))
    )
    scores = [ended.result["metrics"]["eval_score"] for ended in (oldest, newest)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)
    assert oldest.events("start")[0]["device"]["count"] == 2
    assert oldest.losses == pytest.approx(newest.losses, abs=1e-4)
    assert oldest.result["metrics"]["optim/global_batch_size"] == 8
    assert oldest.result["metrics"]["eval_accuracy"] == newest.result["metrics"]["eval_accuracy"]
    assert [e["samples"] for e in oldest.events("metric")] == [e["samples"] for e in newest.events("metric")]


@pytest.mark.parametrize("task", WITHOUT_PACKAGES)
def test_a_probe_ends_at_the_same_step_with_the_same_losses(
    task: str, job_of: Callable[..., Job], oldest_python: str
) -> None:
    arguments = {"epochs": 200, "eval_strategy": "end", "probe_precision": 1e-6, "probe_samples": 1}
    oldest, newest = (
        run(job_of(task, name), [python], task, **arguments)
        for name, python in (("oldest", oldest_python), ("newest", sys.executable))
    )
    assert oldest.result["steps"] == newest.result["steps"] == 28
    assert oldest.losses == pytest.approx(newest.losses, abs=1e-4)
    for name in ("projected/steps", "projected/samples"):
        assert oldest.result["metrics"][name] == newest.result["metrics"][name]
    assert oldest.result["metrics"]["projected/remaining_seconds"] > 0
