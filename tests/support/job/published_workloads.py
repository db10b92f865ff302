"""Fields that run the published workloads with tiny models on few rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.job.small_workloads import emotion, star_reviews

Fields = Mapping[str, object]


def squad(_: Path, shared: Path) -> Fields:
    data = shared / "data"
    files = {
        "data.train": data / "squad-v1.1-train-first4373.json.gz",
        "data.validation": data / "squad-v1.1-dev-first1500.json.gz",
    }
    return {**files, "max_length": 96, "doc_stride": 32}


def mnli(_: Path, shared: Path) -> Fields:
    data = shared / "data"
    return {
        "data.train": data / "mnli-taxinli-fromtrain.tsv.gz",
        "data.validation": data / "mnli-taxinli-fromdev.tsv.gz",
    }


def spot(_: Path, shared: Path) -> Fields:
    return {**emotion(shared), "save_steps": 2}


def reviews(folder: Path, shared: Path) -> Fields:
    steps = {"eval_steps": 2, "save_steps": 2, "save_model": "false"}
    return {**star_reviews(folder, shared), **steps}


def sst2(_: Path, shared: Path) -> Fields:
    data = shared / "data"
    return {
        "data.train": data / "sst2-train.tsv.gz",
        "data.validation": data / "sst2-dev.tsv.gz",
        "data.train_rows": 400,
        "model_overrides": "{n_layer: 2, n_embd: 16, n_head: 2}",
        "max_length": 32,
    }


WORKLOADS: Mapping[str, tuple[str | None, Callable[[Path, Path], Fields]]] = {
    "squad-albert": ("albert", squad),
    "bert-large-squad-dp": ("bert", squad),
    "roberta-large-mnli-mp": ("roberta", mnli),
    "distilbert-spot": ("distilbert", spot),
    "reviews-distilbert": ("distilbert", reviews),
    "emotion-bert": ("bert", lambda _, shared: emotion(shared)),
    "sst2-gpt2": (None, sst2),
}
"""Experiment to (kind of its tiny model, or None for a model from scratch; function that returns its small data)."""

SMALL_FIELDS = {"data.train_rows": 48, "data.validation_rows": 24, "max_length": 64, "max_steps": 4, "logging_steps": 1}
