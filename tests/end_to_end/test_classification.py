"""Each classification experiment from its file to MLflow: real data, a random model of its architecture, four steps."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.end_to_end.conftest import CommandLine
from tests.support.job.small_workloads import emotion, small_model

EMOTIONS = ["sadness", "joy", "love", "anger", "fear", "surprise"]


def trained(command_line: CommandLine, experiment: str, kind: str, fields: Mapping[str, object]) -> Run:
    """Train four steps of an experiment on 48 + 24 rows and return the job's run."""
    few = {"data.train_rows": 48, "data.validation_rows": 24, "max_steps": 4, "logging_steps": 1, "max_length": 64}
    model = {"model": small_model(command_line.folder, kind), "weights": "random", "warmup_samples": 0}
    done = command_line("train", {"experiment": experiment, **model, **few, **fields})
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    assert run.info.status == "FINISHED"
    assert run.data.params["job.model_architecture"].lower().startswith(kind)
    return run


def tables(command_line: CommandLine, run: Run) -> dict[str, list[dict[str, Any]]]:
    """Return the run's tables, and see to it that there is a picture of what it learnt from and of how it did."""
    client = MlflowClient(command_line.uri)
    plots = [file.path for file in client.list_artifacts(run.info.run_id, "plots")]
    assert sorted(plots) == ["plots/class_distribution.png", "plots/confusion_matrix.png"]
    folder = Path(client.download_artifacts(run.info.run_id, "tables"))
    found = {path.stem: json.loads(path.read_text()) for path in folder.iterdir()}
    return {name: [dict(zip(t["columns"], row, strict=True)) for row in t["data"]] for name, t in found.items()}


def check_tables(found: dict[str, list[dict[str, Any]]], names: list[str], accuracy: float) -> None:
    assert [row["label"] for row in found["per_class"]] == names
    assert [row["label"] for row in found["class_distribution"]] == names
    assert sum(row["train_rows"] for row in found["class_distribution"]) == 48
    support = [row["support"] for row in found["per_class"]]
    assert support == [row["validation_rows"] for row in found["class_distribution"]]
    assert sum(row["count"] for row in found["confusion_matrix"]) == len(found["predictions"]) == 24
    right = sum(row["label"] == row["prediction"] for row in found["predictions"])
    assert right == sum(row["count"] for row in found["confusion_matrix"] if row["actual"] == row["predicted"])
    assert accuracy == pytest.approx(right / 24)


@pytest.mark.slow
def test_emotion_bert(command_line: CommandLine, shared: Path) -> None:
    run = trained(command_line, "emotion-bert", "bert", emotion(shared))
    assert run.data.metrics["optim/global_batch_size"] == 24
    found = tables(command_line, run)
    check_tables(found, EMOTIONS, run.data.metrics["eval_accuracy"])
    with gzip.open(shared / "data/emotion-validation.jsonl.gz", "rt") as lines:
        labels = [EMOTIONS[json.loads(line)["label"]] for line, _ in zip(lines, range(24), strict=False)]
    assert [(row["row"], row["label"]) for row in found["predictions"]] == list(enumerate(labels, start=1))


@pytest.mark.slow
def test_roberta_large_mnli_mp(command_line: CommandLine, shared: Path) -> None:
    """Pairs, as the tab-separated files have them: with quotation marks that mean nothing."""
    data = {
        "data.train": shared / "data/mnli-taxinli-fromtrain.tsv.gz",
        "data.validation": shared / "data/mnli-taxinli-fromdev.tsv.gz",
    }
    run = trained(command_line, "roberta-large-mnli-mp", "roberta", data)
    found = tables(command_line, run)
    check_tables(found, ["entailment", "neutral", "contradiction"], run.data.metrics["eval_accuracy"])
    with gzip.open(data["data.validation"], "rt") as file:
        labels = [line.rstrip("\n").split("\t")[4] for line, _ in zip(file, range(25), strict=False)]
    assert [(row["row"], row["label"]) for row in found["predictions"]] == list(enumerate(labels, start=1))[1:]


def test_reviews_without_the_tables_say_which_are_missing(command_line: CommandLine) -> None:
    done = command_line("train", {"experiment": "reviews-distilbert"})
    assert done.returncode == 2
    assert "reviews-train.jsonl.gz does not exist" in done.stderr
    assert done.stderr.count("\n") == 1


def checkpoints(command_line: CommandLine, run: Run) -> list[str]:
    folder = command_line.folder / "home/checkpoints" / run.data.tags["platform.job_name"]
    return sorted(path.name for path in folder.glob("checkpoint-*"))
