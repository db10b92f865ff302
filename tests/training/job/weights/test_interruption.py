"""A job that is killed at any moment resumes with bit-identical results."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from transformers import BertConfig, BertForSequenceClassification

from tests.support.fork_server.interpreter import forking_interpreter
from tests.support.job.job_process import DYING

# An epoch has 13 batches of 4 rows and 7 steps of 2 batches. The last step has one batch of 2 rows. Dropout is 0.1.
TRAINING = {
    "batch_size": 4,
    "eval_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "epochs": 2,
    "padding": "buckets",
    "bucket_lengths": "6,12",
    "learning_rate": 0.01,
    "warmup_samples": 16,
    "eval_strategy": "steps",
    "eval_steps": 3,
    "save_strategy": "steps",
    "save_steps": 2,
    "save_total_limit": 1,
}


def signal_at(call: str, signal_name: str = "SIGKILL") -> list[str]:
    """Return launcher arguments that send the job a signal at a call `MODULE:NAME:COUNT`.

    Writing a checkpoint calls torch.save four times.
    """
    return [DYING, call, signal_name]


def curve(ended: Any) -> dict[tuple[int, str], Any]:
    """Return all numbers about the training that the job logged in all starts. Repeated numbers must be equal."""
    values: dict[tuple[int, str], Any] = {}
    for event in ended.events("metric"):
        logged = {**event["values"], "samples": event["samples"], "epoch": event["epoch"]}
        for name, value in logged.items():
            if "second" not in name and "runtime" not in name:
                assert values.setdefault((event["step"], name), value) == value, (event["step"], name)
    return values


def checkpoints_of(job: Any) -> list[str]:
    return sorted(path.name for path in (job.folder / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def uninterrupted(job_in: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The uninterrupted training."""
    ended = job_in(tmp_path_factory.mktemp("uninterrupted") / "job").with_checkpoints().run(**TRAINING)
    assert [step for step, name in curve(ended) if name == "loss"] == list(range(1, 15))
    assert sorted(step for step, name in curve(ended) if name == "eval_loss") == [3, 6, 9, 12, 14]
    return ended


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill_at", "resumed_from"),
    [
        pytest.param(
            [
                "training.job.loop.job_trainer:Reporter.on_step_end:4",
                "training.job.loop.job_trainer:Reporter.on_step_end:6",
            ],
            [2, 6],
            id="in training",
        ),
        pytest.param(["torch:save:2", "torch:save:8"], [None, 2], id="in writing a checkpoint"),
        pytest.param(
            [
                "training.job.weights.checkpoints:write_progress:1",
                "training.job.weights.checkpoints:remove_older:2",
            ],
            [None, 4],
            id="in finishing a checkpoint",
        ),
        pytest.param(["training.job.training_run:save_tokenizer:1"], [14], id="in saving the model"),
    ],
)
def test_a_killed_job_resumes(job: Any, uninterrupted: Any, kill_at: list[str], resumed_from: list[int | None]) -> None:
    job.with_checkpoints()
    for call in kill_at:
        killed = job.run(signal_at(call), **TRAINING)
        assert killed.code == -signal.SIGKILL, killed.output[-2000:]
    ended = job.run(**TRAINING)
    assert ended.code == 0, ended.output[-3000:]
    assert [start["resumed_from_step"] for start in ended.events("start")] == [None, *resumed_from]
    assert curve(ended) == curve(uninterrupted)
    assert ended.weights == uninterrupted.weights
    assert ended.result["steps"] == 14
    for name in ("eval_loss", "tokens"):
        assert ended.result["metrics"][name] == uninterrupted.result["metrics"][name]
    assert checkpoints_of(job) == ["checkpoint-14"]


@pytest.mark.slow
def test_an_evaluation_interrupted_by_a_stop_is_repeated(job: Any, uninterrupted: Any) -> None:
    """On SIGTERM in an evaluation, the evaluated step is saved, and the next start evaluates it."""
    job.with_checkpoints()
    stop_at = "training.job.loop.job_trainer:Reporter.on_prediction_step:2"
    stopped = job.run(signal_at(stop_at, "SIGTERM"), **TRAINING)
    assert stopped.code == 143, stopped.output[-2000:]
    assert checkpoints_of(job) == ["checkpoint-3"]
    assert json.loads((job.folder / "checkpoints/checkpoint-3/progress.json").read_text())["owes_evaluation"]
    ended = job.run(**TRAINING)
    assert curve(ended) == curve(uninterrupted)
    assert ended.weights == uninterrupted.weights


def test_a_checkpoint_of_another_training_is_refused(
    job: Any, uninterrupted: Any, channel_writer: Any, tmp_path: Path
) -> None:
    job.environment["SM_CHECKPOINT_DIR"] = str(uninterrupted.folder / "checkpoints")
    config = BertConfig.from_pretrained(job.environment["SM_CHANNEL_MODEL"])
    BertForSequenceClassification(config).save_pretrained(tmp_path / "other")
    job.environment["SM_CHANNEL_MODEL"] = str(tmp_path / "other")
    channel_writer(job.folder / "train", [[10, 20, 30]] * 50, [0, 1] * 25)
    ended = job.run(**(TRAINING | {"seed": 7, "epochs": 3}))
    assert ended.code == 1
    (failure,) = ended.events("failure")
    assert "checkpoint-14 belongs to a different training: " in failure["message"]
    for difference in ("seed was 42 and is 7", "epochs was 2.0 and is 3.0", "data was", "weights was"):
        assert difference in failure["message"]
    assert "batch" not in failure["message"]
    assert (uninterrupted.folder / "checkpoints/checkpoint-14").exists()


@pytest.mark.slow
def test_evaluation_and_saving_options_may_change(job: Any, uninterrupted: Any) -> None:
    job.with_checkpoints()
    killed = job.run(signal_at("training.job.loop.job_trainer:Reporter.on_step_end:5"), **TRAINING)
    assert killed.code == -signal.SIGKILL
    changed = {"eval_steps": 5, "save_steps": 5, "save_total_limit": 2, "eval_batch_size": 32}
    ended = job.run(**(TRAINING | changed))
    assert ended.result["steps"] == 14
    # Evaluations do not affect the training: the weights are the same with a different schedule.
    assert ended.weights == uninterrupted.weights


@pytest.mark.slow
def test_a_full_disk_is_reported_and_keeps_earlier_checkpoints(job: Any) -> None:
    """Files are limited to 30 KiB: the weights fit, the optimizer's state does not."""
    job.with_checkpoints()
    assert (
        job.run(signal_at("training.job.loop.job_trainer:Reporter.on_step_end:4"), **TRAINING).code == -signal.SIGKILL
    )
    first = job.folder / "checkpoints/checkpoint-2"
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    ended = job.run(python=["prlimit", f"--fsize={30 * 2**10}", forking_interpreter()], **TRAINING)
    assert ended.code == 1
    (failure,) = ended.events("failure")
    assert failure["message"].startswith(f"cannot write the checkpoint of step 4 in {job.folder / 'checkpoints'}: ")
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before
    assert [path.name for path in first.parent.glob("checkpoint-*")] == ["checkpoint-2"]


@pytest.mark.slow
def test_a_stop_sent_to_every_process_saves_a_checkpoint(job: Any, uninterrupted: Any, plain_interpreter: str) -> None:
    """Services also send SIGTERM to the data workers, which must continue until the checkpoint is written."""
    job.with_checkpoints()
    arguments = {**TRAINING, "dataloader_workers": 2, "precision": "fp32", "logging_steps": 1}
    process = job.start(
        signal_at("training.job.loop.job_trainer:Reporter.on_step_end:5", "SIGSTOP"),
        python=[plain_interpreter],
        **arguments,
    )
    main, deadline = psutil.Process(process.pid), time.monotonic() + 480
    while main.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    children = main.children(recursive=True)
    assert len(children) >= 2
    for each in [*children, main]:
        each.send_signal(signal.SIGTERM)
    main.send_signal(signal.SIGCONT)
    output, _ = process.communicate(timeout=480)
    assert process.returncode == 143, output
    ended = job.run(**arguments)
    assert ended.events("start")[-1]["resumed_from_step"] == 5
    assert curve(ended) == curve(uninterrupted)
    assert ended.weights == uninterrupted.weights


@pytest.mark.slow
def test_a_compiled_job_resumes_with_the_same_dropout(job_in: Callable[[Path], Any], tmp_path: Path) -> None:
    """Compiled programs draw dropout from a seed per step, which must continue too."""
    arguments = {
        **TRAINING,
        "compiler": "inductor",
        "epochs": None,
        "max_steps": 6,
        "save_steps": 2,
        "eval_strategy": "end",
    }
    uninterrupted, job = (job_in(tmp_path / name).with_checkpoints() for name in ("uninterrupted", "cut"))
    for each in (uninterrupted, job):
        each.environment["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "cache")
    expected = uninterrupted.run(**arguments)
    assert expected.code == 0, expected.output[-3000:]
    assert (
        job.run(signal_at("training.job.loop.job_trainer:Reporter.on_step_end:4"), **arguments).code == -signal.SIGKILL
    )
    ended = job.run(**arguments)
    assert ended.events("start")[-1]["resumed_from_step"] == 2
    assert curve(ended) == curve(expected)
    assert ended.weights == expected.weights
