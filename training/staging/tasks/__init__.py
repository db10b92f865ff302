"""Prepare each task's data. Each task has one module, and all modules define the same names.

OPTIONS           fields of the staging request that only this task uses and that change the staged data
HEAD              Transformers class of a model with the task's head
required_columns  return the data columns that the task reads
column_types      return the type of each of these columns, as MLflow names types
row_lengths       return the length in tokens of each row that the rows of a table make, for estimates
content           check the rows of both channels and return them, given how to open the tables, request and progress
"""

from __future__ import annotations

from types import ModuleType

from training.staging.tasks import causal_lm, classification, question_answering

TASKS: dict[str, ModuleType] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}
