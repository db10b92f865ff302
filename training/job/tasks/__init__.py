"""What a job can learn: one file a task, each with the same names.

COLUMNS     whole-number columns of the channel's rows that the task reads, beside the tokens
LABELS      what the model calls its labels
PREDICTS    whether evaluation looks at the predictions, or at the loss alone
check       raises `BadData` for a channel that cannot be
load_model  the model with the task's head
targets     the label arrays of a padded batch
derived     further metrics that follow from an evaluation's
Scorer      metrics and tables from predictions, its rows in the order of evaluation
"""

from typing import Any, Dict

from tasks import classification, question_answering

TASKS: Dict[str, Any] = {"classification": classification, "question-answering": question_answering}
