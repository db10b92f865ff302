"""What a job can learn: one file a task, each with the same names.

COLUMNS     whole-number columns of the channel's rows that the task reads, beside the tokens
LABELS      what the model calls its labels
check       raises `BadData` for a channel that cannot be
load_model  the model with the task's head
targets     the label arrays of a padded batch
kept        what an evaluation keeps of a batch's predictions for the scorer: one row a row of the batch
Scorer      metrics and tables from what was kept, its rows in the order of evaluation
"""

from typing import Any, Dict

from tasks import causal_lm, classification, question_answering

TASKS: Dict[str, Any] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}
