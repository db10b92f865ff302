"""Arguments of small jobs."""

from __future__ import annotations

from typing import Any

ARGUMENTS: dict[str, Any] = {
    "task": "classification",
    "weights": "pretrained",
    "compiler": "none",
    "precision": "fp32",
    "padding": "longest",
    "length_grouping": True,
    "attention": "auto",
    "optimizer": "auto",
    "max_length": 12,
    "batch_size": 8,
    "eval_batch_size": 32,
    "drop_last": False,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-5,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "lr_scheduler": "linear",
    "warmup_samples": 0,
    "seed": 42,
    "logging_steps": 1,
    "eval_strategy": "end",
    "save_strategy": "none",
    "save_total_limit": 100,
    "save_model": True,
    "steady_after_steps": 3,
}


def job_arguments(**changed: Any) -> dict[str, Any]:
    """Return a job's arguments and leave out those set to None. The job trains one epoch by default."""
    length = {} if changed.get("epochs") or changed.get("max_steps") else {"epochs": 1}
    arguments = {**ARGUMENTS, **changed, **length}
    return {name: value for name, value in arguments.items() if value is not None}


def job_argv(**changed: Any) -> list[str]:
    """Return the arguments as a list for a command line."""
    return [word for name, value in job_arguments(**changed).items() for word in (f"--{name}", str(value))]
