"""What a model can be asked: one file a task, each with the same names.

HEAD               class of Transformers that gives a model the task's head
encode_may_refuse  tells whether some inputs are found too long or without a token only once they are tokenised
reads              tells by its name whether a saved model is of the task
read               examples from what was sent, checked
encode             examples as tokens
run                the answers to one batch
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
    """Return the task of a model by the class that it was saved as."""
    for name, task in TASKS.items():
        if task.reads(architecture):
            return name
    raise InputError(f"a model of the class {architecture!r} answers none of the tasks {', '.join(TASKS)}")
