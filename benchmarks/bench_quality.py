"""Quality after longer trainings on real data, in the usual metrics of each task."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import DATA, EMOTION, MINILM, MNLI, SQUAD, SST2_TEXT, TWEETS, check_data
from benchmarks.support.results import Row, write


@dataclass(frozen=True, kw_only=True)
class QualityTraining:
    """A training and the target for its metric."""

    metric: str
    target: str
    """Description of the target."""
    met: Callable[[float], bool]
    fields: Mapping[str, str]


def schedule(rate: str, batch_size: int, epochs: str) -> dict[str, str]:
    """Return the fields for a learning rate at a batch size, and for a number of epochs."""
    sizes = {"batch_size": str(batch_size), "base_batch_size": str(batch_size)}
    return {**sizes, "base_learning_rate": rate, "epochs": epochs, "eval_batch_size": "64", "save_model": "false"}


def accuracy_above(threshold: float, why: str) -> tuple[str, Callable[[float], bool]]:
    """Return the description and the rule of an accuracy target."""
    return f"above {threshold:g} ({why})", lambda value: value > threshold


MAJORITY = "the largest class"
LABELLED_SST2 = {
    "data.train": str(DATA / "sst2-train.tsv.gz"),
    "data.validation": str(DATA / "sst2-dev.tsv.gz"),
    "data.columns": "{text: sentence, label: label}",
    "data.labels": "[negative, positive]",
    "data.train_rows": "8000",
}


def _classification(threshold: float, why: str, fields: Mapping[str, str]) -> QualityTraining:
    target, met = accuracy_above(threshold, why)
    return QualityTraining(metric="eval_accuracy", target=target, met=met, fields={"experiment": "emotion", **fields})


TRAININGS: dict[str, QualityTraining] = {
    "MiniLM on emotion, 16,000 rows, 2 epochs": _classification(
        0.88, "what small encoders reach", {**EMOTION, **schedule("2e-4", 16, "2")}
    ),
    "MiniLM on SST-2, 8,000 rows, 1 epoch": _classification(
        0.60, f"{MAJORITY} has 0.51", {**LABELLED_SST2, **schedule("2e-4", 16, "1")}
    ),
    "MiniLM on MNLI pairs, 2,344 rows, 3 epochs": _classification(
        0.50, f"{MAJORITY} has 0.44",
        {**MINILM, **MNLI, "data.labels": "[entailment, neutral, contradiction]", **schedule("2e-4", 16, "3")},
    ),
    "MiniLM on tweets in 8 languages, 14,712 rows, 1 epoch": _classification(
        0.40, f"{MAJORITY} has 0.33", {**TWEETS, "data.labels": "null", **schedule("1e-4", 16, "1"), "max_length": "64"}
    ),
    "GPT-2 (6 layers of 256) on SST-2 text": QualityTraining(
        metric="eval_perplexity",
        target="below 2,000 (50,257 before training)",
        met=lambda value: value < 2000,
        fields={
            "experiment": "sst2-gpt2",
            **SST2_TEXT,
            "data.train_rows": "20000",
            "model_overrides": "{n_layer: 6, n_embd: 256, n_head: 4}",
            "max_length": "128",
            **schedule("1e-3", 8, "1"),
        },
    ),
    "MiniLM on SQuAD, 15,000 questions, 1 epoch": QualityTraining(
        metric="eval_f1",
        target="above 50 (official rules, 1,500 dev questions)",
        met=lambda value: value > 50,
        fields={
            "experiment": "squad-minilm",
            **SQUAD,
            "base_learning_rate": "1e-4",
            "epochs": "1",
            "save_model": "false",
        },
    ),
}  # fmt: skip


def result_rows(name: str, training: QualityTraining, folder: Path) -> list[Row]:
    """Train once and return the figures."""
    result = train(folder, training.fields).result()
    value = result[training.metric]
    print(f"  {name}: {value:.4g}", file=sys.stderr, flush=True)
    rows = [
        Row(name=f"{name}: {training.metric}", value=value, unit="", target=training.target, met=training.met(value))
    ]
    if "eval_exact_match" in result:
        rows.append(Row(name=f"{name}: eval_exact_match", value=result["eval_exact_match"], unit=""))
    if "eval_f1_macro" in result:
        rows.append(Row(name=f"{name}: eval_f1_macro", value=result["eval_f1_macro"], unit=""))
    rate = result["throughput/steady_samples_per_second"]
    return [*rows, Row(name=f"{name}: steady samples", value=rate, unit="samples/s")]


def main(filters: Sequence[str]) -> None:
    """Run the trainings whose names contain one of the filters, or without filters all."""
    check_data()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, training in TRAININGS.items():
            if not filters or any(part.lower() in name.lower() for part in filters):
                rows += result_rows(name, training, Path(folder))
    notes = ["One run each with compiler none; otherwise the experiment's defaults."]
    write("quality", rows, notes, is_part=bool(filters))


if __name__ == "__main__":
    main(sys.argv[1:])
