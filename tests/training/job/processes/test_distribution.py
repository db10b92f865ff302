"""Two processes divide the rows: every row is used once, with the same results as in one process."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.job.job_process import TORCHRUN, WATCHED, Ended

NewJob = Callable[[str], Any]


@pytest.mark.parametrize("padding", ["longest", "buckets"])
def test_each_process_trains_on_different_rows(job: Any, channel_writer: Any, padding: str) -> None:
    # The last token distinguishes the rows.
    ids = [[10, *[20] * (at % 9), at] for at in range(43)]
    channel_writer(job.folder / "train", ids, [at % 2 for at in range(43)])
    job.environment["WATCHED_FOLDER"] = str(job.folder)
    arguments = {"batch_size": 4, "epochs": 2, "padding": padding, "eval_strategy": "end"}
    if padding == "buckets":
        arguments["bucket_lengths"] = "6,12"
    ended = job.run([*TORCHRUN, WATCHED], **arguments)
    # An epoch has five groups of 2 x 4 rows, and a sixth with the remaining 3: 2 for one process, 1 for the other.
    assert ended.result["steps"] == 12
    # The tokens of the rows in each batch of a process, without padding.
    files = [job.folder / f"rows_{process}.jsonl" for process in range(2)]
    batches_by_process = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    for epoch in range(2):
        batches = [part[6 * epoch : 6 * epoch + 6] for part in batches_by_process]
        assert [[len(batch) for batch in part] for part in batches] == [[4, 4, 4, 4, 4, 2], [4, 4, 4, 4, 4, 1]]
        numbers = [row[-1] for part in batches for batch in part for row in batch]
        assert sorted(numbers) == list(range(43))
    assert batches_by_process[0][:6] != batches_by_process[0][6:]
    samples = [event["samples"] for event in ended.events("metric") if "loss" in event["values"]]
    assert samples == [8, 16, 24, 32, 40, 43, 51, 59, 67, 75, 83, 86]
    metrics = ended.result["metrics"]
    seconds = metrics["time/train_steady_seconds"]
    assert metrics["throughput/steady_samples_per_second"] * seconds == pytest.approx(86 - 24)
    tokens = sum(len(row) for part in batches_by_process for batch in part[3:] for row in batch)
    assert metrics["throughput/steady_tokens_per_second"] * seconds == pytest.approx(tokens)
    assert len(ended.events("result")) == 1
    assert ended.output.count("'train_runtime'") == 1


def test_a_step_in_which_a_process_has_no_row_equals_that_of_one_process(new_job: NewJob, channel_writer: Any) -> None:
    losses = []
    for name, command, size in (("one", (), 8), ("two", TORCHRUN, 4)):
        job = new_job(name).without_dropout()
        # Each epoch has a step of 8 rows and one of a single row.
        channel_writer(job.folder / "train", [[10, 20 + at] for at in range(9)], [at % 2 for at in range(9)])
        losses.append(job.run(command, batch_size=size, epochs=2, learning_rate=0.01).losses)
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_two_processes_evaluate_like_one(new_job: NewJob, channel_writer: Any) -> None:
    results, rows = [], 13
    for name, command in (("one", ()), ("two", TORCHRUN)):
        job = new_job(name)
        ids = [[10 + at % 20, *[15 + at % 30] * (1 + at * 7 % 11)] for at in range(rows)]
        channel_writer(job.folder / "validation", ids, [at * at % 2 for at in range(rows)])
        # A negligible learning rate, so that both have the same weights.
        arguments = {"learning_rate": 1e-30, "max_steps": 1, "eval_batch_size": 8}
        results.append(job.run(command, **arguments).result)
    one, two = results
    assert two["tables"] == one["tables"]
    assert two["metrics"]["eval_loss"] == pytest.approx(one["metrics"]["eval_loss"], rel=1e-6)
    for name in ("eval_accuracy", "eval_f1_macro"):
        assert two["metrics"][name] == one["metrics"][name]


SAVING = {
    "batch_size": 2,
    "gradient_accumulation_steps": 2,
    "epochs": 24,
    "padding": "buckets",
    "bucket_lengths": "6,12",
    "learning_rate": 0.01,
    "eval_strategy": "epoch",
    "save_strategy": "steps",
    "save_steps": 1000,
    "precision": "fp32",
    "logging_steps": 1,
}


@pytest.mark.slow
def test_processes_stop_and_resume_together(new_job: NewJob) -> None:
    expected = new_job("uninterrupted").with_checkpoints().run(TORCHRUN, **SAVING)
    assert expected.result["steps"] == 168

    job = new_job("job").with_checkpoints()
    process = job.start(TORCHRUN, **SAVING)
    job.wait_for('"step":3,', process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    (failure,) = Ended(process.returncode, output, job.folder).events("failure")
    assert failure["failure_class"] == "Stopped", output
    assert not (job.folder / "output/failure").exists()
    (checkpoint,) = (job.folder / "checkpoints").iterdir()
    names = {path.name for path in checkpoint.iterdir()}
    assert {"rng_state_0.pth", "rng_state_1.pth", "optimizer.pt", "progress.json"} <= names

    ended = job.run(TORCHRUN, **SAVING)
    assert ended.events("start")[-1]["resumed_from_step"] == int(checkpoint.name.rpartition("-")[2])
    assert ended.losses == expected.losses
    assert ended.weights == expected.weights


def test_the_failure_of_one_process_is_the_jobs_failure(job: Any) -> None:
    """The other process waits in an exchange. It reports the same failure and ends before it is killed."""
    job.environment["FAILING"] = "1"
    ended = job.run([*TORCHRUN, WATCHED], epochs=100)
    assert ended.code != 0
    (failure,) = ended.events("failure")
    assert (failure["failure_class"], failure["message"]) == ("OutOfMemory", "no room for process 1")
    assert (job.folder / "output/failure").read_text() == "OutOfMemory: no room for process 1"
    assert not re.search(r"exitcode *: -9", ended.output)
