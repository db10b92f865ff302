"""Tasks that a job can train. Each is one object in one file; `task.py` describes what the object has.

A new task is a new file and its line in `TASKS`. It belongs here and nowhere else.
"""

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from training.job.tasks.causal_lm import CausalLM
from training.job.tasks.classification import Classification
from training.job.tasks.multi_label_classification import MultiLabelClassification
from training.job.tasks.embedding import Embedding
from training.job.tasks.question_answering import SQUAD_COLUMNS, QuestionAnswering
from training.job.tasks.regression import Regression
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

_TASKS: Tuple[Task, ...] = (
    Classification(),
    QuestionAnswering(),
    CausalLM(),
    Embedding(),
    MultiLabelClassification(),
    Regression(),
)
TASKS = {task.name: task for task in _TASKS}
"""Every task, by name."""
DEFAULT_TASK = Classification.name


def find_task(config: Mapping[str, Any]) -> Optional[Task]:
    """Return the task of a saved model, given its configuration. None if it fits no task.

    The last task of `TASKS` that fits: a special case follows the task that would also take its models.
    """
    return next((task for task in reversed(list(TASKS.values())) if task.fits(config)), None)


def _in_order(tasks: Iterable[Task]) -> List[Metric]:
    """Return the metrics of tasks, each before those that its task prefers it to."""
    ordered: List[Metric] = []
    for task in tasks:
        at = len(ordered)
        for metric in reversed(task.metrics):
            at = ordered.index(metric) if metric in ordered else at
            ordered[at:at] = [] if metric in ordered else [metric]
    return ordered


METRICS = (*OWN_METRICS, *sorted(_in_order(TASKS.values()), key=lambda metric: not metric.higher_is_better))
"""Metrics of all tasks, in order of preference: the user's own, scores, then losses."""
METRICS_BY_NAME = {metric.name: metric for metric in METRICS}
