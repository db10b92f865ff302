"""Tasks that a job can train: one file each. Every file defines the same names.

COLUMNS             integer columns of the channel's rows that the task reads, besides the tokens
LABELS              names of the model's label inputs
check               raises `BadData` for an invalid channel
load_model          returns the model with the task's head
targets             returns the label arrays of a padded batch
reduce_predictions  reduces a batch's predictions to what the scorer needs, with one row for each row of the batch
Scorer              computes metrics and tables from the reduced predictions, which are in the order of evaluation
"""

from typing import Any, Dict

from training.job.tasks import causal_lm, classification, question_answering

TASKS: Dict[str, Any] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
}
