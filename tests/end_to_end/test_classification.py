"""Each classification experiment from its file to MLflow: four steps on real data, with a random model."""

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
from tests.support.job.small_workloads import small_model


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
    """Return the run's tables, and check that its two plots exist."""
    client = MlflowClient(command_line.uri)
    plots = [file.path for file in client.list_artifacts(run.info.run_id, "plots")]
    assert sorted(plots) == ["plots/class_distribution.png", "plots/confusion_matrix.png"]
    folder = Path(client.download_artifacts(run.info.run_id, "tables"))
    documents = {path.stem: json.loads(path.read_text()) for path in folder.iterdir()}
    return {name: [dict(zip(t["columns"], row, strict=True)) for row in t["data"]] for name, t in documents.items()}


def check_tables(rows_by_table: dict[str, list[dict[str, Any]]], names: list[str], accuracy: float) -> None:
    assert [row["label"] for row in rows_by_table["per_class"]] == names
    assert [row["label"] for row in rows_by_table["class_distribution"]] == names
    assert sum(row["train_rows"] for row in rows_by_table["class_distribution"]) == 48
    support = [row["support"] for row in rows_by_table["per_class"]]
    assert support == [row["validation_rows"] for row in rows_by_table["class_distribution"]]
    assert sum(row["count"] for row in rows_by_table["confusion_matrix"]) == len(rows_by_table["predictions"]) == 24
    right = sum(row["label"] == row["prediction"] for row in rows_by_table["predictions"])
    assert right == sum(row["count"] for row in rows_by_table["confusion_matrix"] if row["actual"] == row["predicted"])
    assert accuracy == pytest.approx(right / 24)


@pytest.mark.slow
def test_roberta_large_mnli_mp_reads_pairs_of_texts(command_line: CommandLine, shared: Path) -> None:
    """Quotation marks in tab-separated files are ordinary characters."""
    data = {
        "data.train": shared / "data/mnli-taxinli-fromtrain.tsv.gz",
        "data.validation": shared / "data/mnli-taxinli-fromdev.tsv.gz",
    }
    run = trained(command_line, "roberta-large-mnli-mp", "roberta", data)
    rows_by_table = tables(command_line, run)
    check_tables(rows_by_table, ["entailment", "neutral", "contradiction"], run.data.metrics["eval_accuracy"])
    with gzip.open(data["data.validation"], "rt") as file:
        labels = [line.rstrip("\n").split("\t")[4] for line, _ in zip(file, range(25), strict=False)]
    assert [(row["row"], row["label"]) for row in rows_by_table["predictions"]] == list(enumerate(labels, start=1))[1:]


def test_the_review_experiment_names_missing_tables(command_line: CommandLine) -> None:
    done = command_line("train", {"experiment": "reviews-distilbert"})
    assert done.returncode == 2
    assert "reviews-train.jsonl.gz does not exist" in done.stderr
    assert done.stderr.count("\n") == 1
