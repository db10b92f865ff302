"""Evaluation metrics for targets, constraints and best checkpoints."""

from __future__ import annotations

from typing import Literal

from training.staging.sources.request import Frozen

QualityMetric = Literal["eval_accuracy", "eval_f1_macro", "eval_exact_match", "eval_f1", "eval_loss", "eval_perplexity"]

TARGET_METRICS: dict[str, Literal["min", "max"]] = {
    "eval_accuracy": "max",
    "eval_f1_macro": "max",
    "eval_exact_match": "max",
    "eval_f1": "max",
    "eval_loss": "min",
    "eval_perplexity": "min",
}
"""Better direction of each metric."""

BEST_POSSIBLE: dict[str, float] = {
    "eval_accuracy": 1.0,
    "eval_f1_macro": 1.0,
    "eval_exact_match": 100.0,
    "eval_f1": 100.0,
    "eval_loss": 0.0,
    "eval_perplexity": 1.0,
}
"""Value of each metric for a model that is always right."""

METRICS_OF_TASKS: dict[str, tuple[str, ...]] = {
    "classification": ("eval_accuracy", "eval_f1_macro", "eval_loss"),
    "question-answering": ("eval_exact_match", "eval_f1", "eval_loss"),
    "causal-lm": ("eval_loss", "eval_perplexity"),
}
"""Metrics that the evaluation of each task reports."""


def check_metric(field: str, metric: str, task: str) -> None:
    """Raise ValueError if the evaluation of a task does not report a metric."""
    reported = METRICS_OF_TASKS[task]
    if metric not in reported:
        raise ValueError(f"{field} {metric!r} is not reported by task {task}, which reports {', '.join(reported)}")


class Target(Frozen):
    """Quality that an arm must reach. Its cost is measured up to that point."""

    metric: QualityMetric
    """Evaluation metric, by its name in MLflow."""
    value: float
    """Value to reach, in the unit of the metric."""
    direction: Literal["min", "max"] | None = None
    """Better direction: `min` for lower, `max` for higher. None means the usual direction of the metric."""
    stop: bool = False
    """Stop training when the target is reached."""
