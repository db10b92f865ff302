"""How the data of each task is made ready: one file a task, each with the same names.

OPTIONS         fields of the staging request, beyond those of every task, that change what is staged
READERS         suffixes of files that the task reads in a way of its own
HEAD            class of Transformers that gives a model the task's head
wanted_columns  columns of the data that the task reads
content         both channels, from tables, request and tokenizer
"""

from __future__ import annotations

from types import ModuleType

from training.staging.tasks import causal_lm, classification, question_answering

TASKS: dict[str, ModuleType] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}
