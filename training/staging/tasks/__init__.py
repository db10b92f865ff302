"""Prepare each task's data: one module a task, with `content` and `row_lengths`.

What a task is, except how its rows become channels, is in `training/job/tasks`.
"""

from __future__ import annotations

from training.staging.tasks import causal_lm, classification, question_answering

_MODULES = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}
CONTENT = {name: module.content for name, module in _MODULES.items()}
"""Functions that check the rows of both channels and return them, given how to open the tables, request, progress."""
ROW_LENGTHS = {name: module.row_lengths for name, module in _MODULES.items()}
"""Functions that return the length in tokens of each row that the rows of a table make, for estimates."""
