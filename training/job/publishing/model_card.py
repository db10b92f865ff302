"""README.md of a pushed model: what it is, how good it is, how it was trained. Pure."""

import json
import re
from typing import Any, Mapping, Optional

PIPELINES = {
    "classification": "text-classification",
    "question-answering": "question-answering",
    "causal-lm": "text-generation",
}
"""The Hub's names of our tasks."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
HIDDEN_SETTINGS = ("model", "model_revision", "push_")
UNTOLD_METRICS = ("_runtime", "_per_second")


def model_card(title: str, base_model: Optional[str], settings: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Return the card. `base_model` is a name on the Hub; None is a model of one's own, whose place is nobody's."""
    task = str(settings["task"])
    head = ["library_name: transformers", "tags: [trainfare]"]
    head += [f"pipeline_tag: {PIPELINES[task]}"] if task in PIPELINES else []
    head += [f"base_model: {json.dumps(base_model)}"] if base_model else []
    start = f"[{base_model}](https://huggingface.co/{base_model})" if base_model else "a model of its author's own"
    how = "from the architecture of" if settings.get("weights") == "random" else "from"
    return "\n".join(
        [
            *("---", *head, "---", "", f"# {title}", "", f"Trained for {task}, {how} {start}.", ""),
            *("## Evaluation", "", "| metric | value |", "| --- | --- |"),
            *(f"| {name} | {value:.4g} |" for name, value in sorted(metrics.items()) if _is_score(name)),
            *("", "## Settings", "", "| setting | value |", "| --- | --- |"),
            *(f"| {name} | {_cell(value)} |" for name, value in sorted(settings.items()) if _is_told(name, value)),
            "",
        ]
    )


def hub_name(model: str) -> Optional[str]:
    """Return a model's name on the Hub, or None for a path or a package."""
    return model if HUB_NAME.fullmatch(model) else None


def _is_score(name: str) -> bool:
    return name == "train_loss" or (name.startswith("eval_") and not name.endswith(UNTOLD_METRICS))


def _is_told(name: str, value: Any) -> bool:
    return value is not None and value != () and not name.startswith(HIDDEN_SETTINGS)


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
