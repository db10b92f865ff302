"""Tasks of models. Each task is a module with these names:

HEAD               Transformers class that loads a model with the task's head
encode_may_refuse  returns whether `encode` rejects some inputs, such as those that are too long
supports           returns whether the task supports a saved model, given the name of its class
read               checks inputs and returns examples
encode             tokenizes examples
run                returns the answers of one batch
ANSWERS_BY_ROW     True if answers follow from one run of the model for each row. Then the task also has
outputs            runs rows as one batch and returns the model's output for each
answers            returns the answers of examples, given the outputs of their rows
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
    """Return a model's task, given the class that it was saved as. Raises `InputError`."""
    for name, task in TASKS.items():
        if task.supports(architecture):
            return name
    raise InputError(f"the model's class {architecture!r} fits none of the supported tasks: {', '.join(TASKS)}")
