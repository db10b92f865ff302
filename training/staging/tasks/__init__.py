"""Preparation of each task's data. Each task has one module, and all of them define the same names.

OPTIONS           fields of the staging request that only this task uses and that change the staged data
READERS           readers of the task's own file formats, by suffix
HEAD              class of Transformers for a model with the task's head
required_columns  return the columns of the data that the task reads
content           return both channels, from tables, request and tokenizer
"""

from __future__ import annotations

from types import ModuleType

from training.staging.tasks import causal_lm, classification, question_answering

TASKS: dict[str, ModuleType] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}
