"""Tasks that a job can train. Each is one object in one file; `task.py` describes what the object has.

A new task is a new file and its line in `TASKS`. It belongs here and nowhere else.
"""

from collections.abc import Mapping
from typing import Any

from training.job.tasks.causal_lm import CausalLM
from training.job.tasks.chat import Chat
from training.job.tasks.classification import Classification
from training.job.tasks.embedding import Embedding
from training.job.tasks.multi_label_classification import MultiLabelClassification
from training.job.tasks.question_answering import SQUAD_COLUMNS, QuestionAnswering
from training.job.tasks.regression import Regression
from training.job.tasks.seq2seq import Seq2Seq
from training.job.tasks.task import (
    LOSS,
    MAX_TOKENS,
    OPTIONS_FILE,
    OWN_METRICS,
    SOURCE_ROWS,
    Encoded,
    Label,
    Metric,
    Row,
    Task,
)
from training.job.tasks.token_classification import TokenClassification

__all__ = [
    "DEFAULT_TASK",
    "LOSS",
    "MAX_TOKENS",
    "METRICS",
    "METRICS_BY_NAME",
    "OPTIONS_FILE",
    "OWN_METRICS",
    "SOURCE_ROWS",
    "SQUAD_COLUMNS",
    "TASKS",
    "Encoded",
    "Label",
    "Metric",
    "Row",
    "Task",
    "find_task",
]

_TASKS: tuple[Task, ...] = (
    Classification(),
    QuestionAnswering(),
    CausalLM(),
    Chat(),
    Embedding(),
    Seq2Seq(),
    TokenClassification(),
    MultiLabelClassification(),
    Regression(),
)
TASKS = {task.name: task for task in _TASKS}
"""Every task, by name."""
DEFAULT_TASK = Classification.name


def find_task(config: Mapping[str, Any]) -> Task | None:
    """Return the task of a saved model, given its configuration. None if it fits no task.

    The last task of `TASKS` that fits: a special case follows the task that would also take its models.
    """
    return next((task for task in reversed(list(TASKS.values())) if task.fits(config)), None)


def _in_order() -> list[Metric]:
    """Return the metrics of all tasks but the loss, each before those that its task prefers it to."""
    ordered: list[Metric] = []
    for task in TASKS.values():
        at = len(ordered)
        for metric in (each for each in reversed(task.metrics) if each != LOSS):
            if metric in ordered:
                at = ordered.index(metric)
            else:
                ordered.insert(at, metric)
    return ordered


_RANKINGS = [list(task.metrics) for task in TASKS.values() if LOSS in task.metrics]
_AFTER_LOSS = {metric for each in _RANKINGS for metric in each[each.index(LOSS) + 1 :]}
_BEFORE_LOSS = [metric for metric in _in_order() if metric not in _AFTER_LOSS]
METRICS = (*OWN_METRICS, *_BEFORE_LOSS, LOSS, *(metric for metric in _in_order() if metric in _AFTER_LOSS))
"""Metrics of all tasks, in order of preference: the user's own, those that a task prefers to the loss, and the loss."""
METRICS_BY_NAME = {metric.name: metric for metric in METRICS}
