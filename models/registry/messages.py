"""Descriptions of registered models and their versions, in MLflow's Markdown. Pure."""

from __future__ import annotations

from models.lookup.evaluation import EVALUATIONS
from models.lookup.trained_model import TrainedModel
from training.contract.plain_text import without_markup


def model_description(experiment_name: str) -> str:
    """Return the description of a registered model."""
    return f"Models of the experiment {without_markup(experiment_name)}. The alias `champion` names the model in use."


def version_description(trained: TrainedModel) -> str:
    """Return the description of a version: its origin, its evaluation and the reason for choosing it."""
    of_group = f" of group `{trained.group}`" if trained.group else ""
    setting = f" ({without_markup(trained.arm)})" if trained.arm else ""
    parts = [
        f"Trained by job `{trained.job_name}`{setting}{of_group}: "
        f"[run {trained.run_id}](#/experiments/{trained.experiment_id}/runs/{trained.run_id}).",
        evaluation_sentence(trained),
        without_markup(trained.chosen),
        f"Trained with {without_markup(trained.versions)}." if trained.versions else "",
    ]
    return "\n\n".join(part for part in parts if part)


def evaluation_sentence(trained: TrainedModel) -> str:
    """Return the last evaluation as a sentence."""
    metrics = [f"{name} {trained.metrics[name]:.6g}" for name in EVALUATIONS if name in trained.metrics]
    return f"Evaluation: {', '.join(metrics)}." if metrics else "It was not evaluated."
