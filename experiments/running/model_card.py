"""README.md of a pushed model: its task, scores and settings. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

PIPELINES = {
    "classification": "text-classification",
    "question-answering": "question-answering",
    "causal-lm": "text-generation",
}
"""The Hub's name for each task."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
HIDDEN_SETTINGS = ("model", "model_revision", "push_")
HIDDEN_METRICS = ("_runtime", "_per_second")


def model_card(title: str, base_model: str | None, settings: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Return the card. `base_model` is a name on the Hub; None hides the location of a private model."""
    task = str(settings["task"])
    head = ["library_name: transformers", "tags: [trainfare]"]
    head += [f"pipeline_tag: {PIPELINES[task]}"] if task in PIPELINES else []
    head += [f"base_model: {json.dumps(base_model)}"] if base_model else []
    start = f"[{base_model}](https://huggingface.co/{base_model})" if base_model else "a private model"
    origin = "from the architecture of" if settings.get("weights") == "random" else "from"
    return "\n".join(
        [
            *("---", *head, "---", "", f"# {title}", "", f"Trained for {task}, {origin} {start}.", ""),
            *("## Evaluation", "", "| metric | value |", "| --- | --- |"),
            *(f"| {name} | {value:.4g} |" for name, value in sorted(metrics.items()) if _is_score(name)),
            *("", "## Settings", "", "| setting | value |", "| --- | --- |"),
            *(f"| {name} | {_cell(value)} |" for name, value in sorted(settings.items()) if _is_shown(name, value)),
            "",
        ]
    )


def hub_name(model: str) -> str | None:
    """Return a model's name on the Hub, or None for a path."""
    return model if HUB_NAME.fullmatch(model) else None


def _is_score(name: str) -> bool:
    return name == "train_loss" or (name.startswith("eval_") and not name.endswith(HIDDEN_METRICS))


def _is_shown(name: str, value: Any) -> bool:
    return value is not None and value != () and not name.startswith(HIDDEN_SETTINGS)


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
