"""Settings, metrics and variables that every request of our own job has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SETTINGS: Mapping[str, Any] = {
    "weights": "pretrained",
    "compiler": "none",
    "precision": "auto",
    "padding": "auto",
    "bucket_lengths": "64,128",
    "length_grouping": True,
    "attention": "auto",
    "optimizer": "auto",
    "drop_last": False,
    "gradient_accumulation_steps": 1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "lr_scheduler": "linear",
    "warmup_samples": 0,
    "seed": 42,
    "logging_steps": 10,
    "eval_strategy": "end",
    "save_strategy": "none",
    "save_total_limit": 1,
    "save_model": True,
    "steady_after_steps": 3,
}
"""Settings that every plan passes. The published scripts set them in their code, or use Trainer's defaults."""

METRICS = {
    "train_loss": "loss",
    "eval_loss": "eval_loss",
    "learning_rate": "learning_rate",
    "epoch": "epoch",
    "summary_train_loss": "train_loss",
    "summary_train_runtime": "train_runtime",
    "summary_train_samples_per_second": "train_samples_per_second",
    "summary_train_steps_per_second": "train_steps_per_second",
}

MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(64 * 2**20)}
