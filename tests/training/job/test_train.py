"""Jobs in separate processes, on a random two-layer model: their events, files and failures."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from training.contract.events import EVENT_KINDS, EventReader
from training.contract.failures import failure_of_reason

NewJob = Callable[[str], Any]


@pytest.fixture(scope="module")
def full_training(job_in: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A training of 50 rows in batches of 8: 7 steps per epoch, the last with 2 rows."""
    return job_in(tmp_path_factory.mktemp("full") / "job").run(
        padding="auto", bucket_lengths="6,12", epochs=2, eval_strategy="epoch", target_metric="eval_loss",
        target_value=100, warmup_samples=20, logging_steps=3,
    )  # fmt: skip


def test_a_full_training_reports_every_kind_of_event_in_order(full_training: Any) -> None:
    events = EventReader().read(full_training.output.splitlines())
    assert [event.seq for event in events] == list(range(len(events)))
    assert {event.kind for event in events} == EVENT_KINDS - {"failure", "note", "meter", "logged"}
    assert [json.loads(json.dumps(dict(e.fields))) for e in events if e.kind == "result"] == [
        {name: value for name, value in full_training.result.items() if name not in ("event", "seq", "time")}
    ]
    start = full_training.events("start")[0]
    assert start["samples"] == {"train": 50, "validation": 13}
    assert start["hyperparameters"]["precision"] == "fp32"
    # What auto took.
    assert (start["hyperparameters"]["padding"], start["hyperparameters"]["bucket_lengths"]) == ("longest", [])
    assert start["model"]["architecture"] == "BertForSequenceClassification"
    assert start["resumed_from_step"] is None
    losses, evaluations = (
        [event for event in full_training.events("metric") if name in event["values"]] for name in ("loss", "eval_loss")
    )
    # The first and last steps are always logged. The last batch of each epoch has 2 rows.
    assert [(e["step"], e["samples"]) for e in losses] == [(1, 8), (3, 24), (6, 48), (9, 66), (12, 90), (14, 100)]
    assert all(e["values"]["step_seconds"] > 0 and e["values"]["grad_norm"] > 0 for e in losses)
    assert losses[0]["values"]["learning_rate"] == pytest.approx(0.0)
    assert [(e["step"], e["samples"]) for e in evaluations] == [(7, 50), (14, 100)]
    assert full_training.result["metrics"]["eval_loss"] == evaluations[-1]["values"]["eval_loss"]
    # The metric expressions of the published trainings match the log.
    for name in ("loss", "learning_rate", "epoch", "train_runtime", "train_samples_per_second", "train_loss"):
        assert re.findall(f"'{name}': ([0-9.]+)", full_training.output), name


def test_the_result_has_every_figure(full_training: Any) -> None:
    result = full_training.result
    assert (result["steps"], result["global_batch_size"], result["cache_state"]) == (14, 8, "off")
    metrics = result["metrics"]
    assert metrics["throughput/steady_steps"] == 11
    steady_samples = 100 - 24
    assert metrics["throughput/steady_samples_per_second"] == pytest.approx(
        steady_samples / metrics["time/train_steady_seconds"]
    )
    assert metrics["throughput/steady_step_seconds_p25"] <= metrics["throughput/steady_step_seconds_p75"]
    assert (metrics["target/samples"], metrics["optim/global_batch_size"]) == (50, 8)
    assert 0 < metrics["padding/efficiency"] < 1
    measured = {
        "time/load_seconds", "time/warmup_seconds", "time/eval_seconds", "time/save_seconds", "train_runtime",
        "train_loss", "eval_accuracy", "eval_f1_macro", "memory/peak_resident_gib", "machine/others_cpu_percent",
    }  # fmt: skip
    assert measured <= set(metrics)
    assert not {"compile/recompiles", "throughput/mfu"} & set(metrics)
    rows = result["tables"]["per_class.json"]
    assert sum(row["support"] for row in rows) == 13
    assert {row["label"] for row in rows} == {"calm", "wild é"}
    model = full_training.folder / "model"
    assert {"config.json", "model.safetensors", "vocab.txt"} <= {path.name for path in model.iterdir()}
    assert json.loads((model / "config.json").read_text())["id2label"] == {"0": "calm", "1": "wild é"}


@pytest.mark.gate
@pytest.mark.slow
def test_the_same_seed_gives_bit_identical_weights(new_job: NewJob) -> None:
    weights = []
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        ended = new_job(name).run(seed=seed, max_steps=9)
        weights.append((ended.losses, ended.weights))
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


@pytest.mark.gate
@pytest.mark.slow
def test_accumulated_batches_give_the_same_step(new_job: NewJob) -> None:
    """Without dropout, a step with 2 x 4 samples equals one with 8. With max_length, both have the same row order."""
    arguments = {"padding": "max_length", "max_steps": 6, "learning_rate": 0.01}
    runs = []
    for name, size, accumulated in (("whole", 8, 1), ("halves", 4, 2)):
        job = new_job(name).without_dropout()
        runs.append(job.run(**arguments, batch_size=size, gradient_accumulation_steps=accumulated))
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-4)
    norms = [[e["values"]["grad_norm"] for e in run.events("metric") if "loss" in e["values"]] for run in runs]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


@pytest.mark.parametrize(
    ("damage", "failure_class", "message"),
    [
        (lambda job: (job.folder / "train/data.parquet").unlink(), "BadData", "data.parquet is missing"),
        (lambda job: job.environment.update(SM_CHANNEL_MODEL="/none"), "Error", "model '/none' cannot be loaded"),
    ],
)
def test_a_failed_job_reports_the_reason(job: Any, damage: Any, failure_class: str, message: str) -> None:
    damage(job)
    ended = job.run()
    assert ended.code == 1
    (event,) = ended.events("failure")
    assert event["failure_class"] == failure_class
    assert message in event["message"]
    assert (job.folder / "output/failure").read_text() == f"{failure_class}: {event['message']}"[:1024]


def test_a_training_that_diverges_ends_at_its_first_loss_that_is_nan(job: Any) -> None:
    ended = job.run(learning_rate=1e30, max_steps=1000, logging_steps=2)
    (event,) = ended.events("failure")
    assert (ended.code, event["failure_class"]) == (1, "Diverged")
    reason = r"the training loss is (nan|inf) at step [24], so the training has diverged: lower base_learning_rate or "
    assert re.fullmatch(reason + "max_learning_rate, or raise warmup_samples", event["message"])
    assert failure_of_reason((job.folder / "output/failure").read_text()).failure_class == "Diverged"


def test_a_stop_without_checkpoints_ends_the_job_immediately(job: Any) -> None:
    process = job.start(epochs=10_000, precision="fp32")
    job.wait_for('"metric"', process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=480)
    assert process.returncode == 143
    *_, last = EventReader().read(output.splitlines())
    assert (last.kind, last.fields["failure_class"]) == ("failure", "Stopped")
    assert not (job.folder / "output/failure").exists()
    assert not (job.folder / "model").exists()


@pytest.mark.gate
@pytest.mark.slow
def test_a_stopped_job_saves_its_step_and_resumes_there(job: Any, new_job: NewJob) -> None:
    arguments = {"batch_size": 2, "precision": "fp32", "logging_steps": 1, "epochs": 12, "padding": "longest"}
    uninterrupted = new_job("uninterrupted").run(**arguments)
    job.with_checkpoints()
    saving = {**arguments, "save_strategy": "steps", "save_steps": 1000}
    process = job.start(**saving)
    job.wait_for('"step":26,', process)  # in the second epoch, whose rows have another order
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=480)
    assert process.returncode == 143, output
    (checkpoint,) = (job.folder / "checkpoints").iterdir()
    step = int(checkpoint.name.rpartition("-")[2])
    incomplete = job.folder / "checkpoints" / "checkpoint-999"
    shutil.copytree(checkpoint, incomplete)
    (incomplete / "model.safetensors").write_bytes(b"")

    resumed = job.run(**saving)
    assert any("checkpoint-999 is incomplete" in note["message"] for note in resumed.events("note"))
    assert resumed.events("start")[-1]["resumed_from_step"] == step
    later = [e for e in resumed.events("metric") if "loss" in e["values"]]
    assert [e["step"] for e in later] == list(range(1, 301))
    assert [e["samples"] for e in later] == [
        e["samples"] for e in uninterrupted.events("metric") if "loss" in e["values"]
    ]
    # The resumed steps are bit-identical to those of an uninterrupted training.
    assert resumed.losses == uninterrupted.losses
    assert resumed.result["metrics"]["eval_loss"] == uninterrupted.result["metrics"]["eval_loss"]
