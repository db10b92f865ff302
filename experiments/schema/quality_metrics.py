"""The evaluation metrics that a target, a constraint or a best checkpoint can name."""

from __future__ import annotations

from typing import Literal

QualityMetric = Literal["eval_accuracy", "eval_f1_macro", "eval_exact_match", "eval_f1", "eval_loss", "eval_perplexity"]

TARGET_METRICS: dict[str, Literal["min", "max"]] = {
    "eval_accuracy": "max",
    "eval_f1_macro": "max",
    "eval_exact_match": "max",
    "eval_f1": "max",
    "eval_loss": "min",
    "eval_perplexity": "min",
}
"""Which direction of each is better."""

BEST_POSSIBLE: dict[str, float] = {
    "eval_accuracy": 1.0,
    "eval_f1_macro": 1.0,
    "eval_exact_match": 100.0,
    "eval_f1": 100.0,
    "eval_loss": 0.0,
    "eval_perplexity": 1.0,
}
"""The value of each that a model which is always right would have."""

METRICS_OF_TASKS: dict[str, tuple[str, ...]] = {
    "classification": ("eval_accuracy", "eval_f1_macro", "eval_loss"),
    "question-answering": ("eval_exact_match", "eval_f1", "eval_loss"),
    "causal-lm": ("eval_loss", "eval_perplexity"),
}
"""What the evaluation of each task tells."""


def check_metric(field: str, metric: str, task: str) -> None:
    """Raise ValueError where a task's evaluation does not tell a metric."""
    told = METRICS_OF_TASKS[task]
    if metric not in told:
        raise ValueError(f"{field} {metric!r} is not told by task {task}, which tells {', '.join(told)}")
