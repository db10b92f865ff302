"""Tasks of saved models, and the job's module for question answering. Imports no library that loads a model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.models.model_files import read_config

CLASSES = {
    "ForSequenceClassification": "classification",
    "ForQuestionAnswering": "question-answering",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
}
"""Task of a model, by a part of its class in Transformers."""
ANSWER_SPANS = Path(__file__).resolve().parents[2] / "training" / "job" / "tasks" / "answer_spans.py"
"""The job's files import each other by bare names, but this one imports no other, so it can be loaded alone."""


def find_task(architecture: str) -> str | None:
    """Return the task of a model, given the class that it was saved as. None if no task supports it."""
    return next((task for part, task in CLASSES.items() if part in architecture), None)


def read_task(folder: Path) -> str:
    """Return the task of the model in a Transformers folder. Raises `InputError`."""
    names = read_config(folder).get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InputError(f"{folder / 'config.json'} has no field 'architectures', so the model's task is unknown")
    if task := find_task(names[0]):
        return task
    known = ", ".join(dict.fromkeys(CLASSES.values()))
    raise InputError(f"the model's class {names[0]!r} fits none of the supported tasks: {known}")


def _load_answer_spans() -> Any:
    spec = importlib.util.spec_from_file_location("trainfare_answer_spans", ANSWER_SPANS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


answer_spans: Any = _load_answer_spans()
