"""Tasks of models: one file each, all with the same names.

HEAD               class of Transformers that loads a model with the task's head
encode_may_refuse  returns whether `encode` refuses some inputs, such as those that are too long
reads              returns whether a saved model, by the name of its class, is of the task
read               checks inputs and returns examples
encode             returns the examples as tokens
run                returns the answers of one batch
"""

from __future__ import annotations

from types import ModuleType

from models.inference import causal_lm, classification, question_answering
from training.contract.errors import InputError

TASKS: dict[str, ModuleType] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}


def task_of(architecture: str) -> str:
    """Return the task of a model from the class that it was saved as."""
    for name, task in TASKS.items():
        if task.reads(architecture):
            return name
    raise InputError(f"a model of the class {architecture!r} answers none of the tasks {', '.join(TASKS)}")
