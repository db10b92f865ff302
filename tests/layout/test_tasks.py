"""A task is one file: few other files name one, and their number may only fall."""

from __future__ import annotations

import re

from tests.layout.imports import ROOT
from training.job.tasks import TASKS

PACKAGES = ("experiments", "models", "reports", "sweeps", "tracking", "judging", "training", "state", "benchmarks")
FOLDERS = (ROOT / "training/job/tasks", ROOT / "benchmarks/opponents", ROOT / "experiments/published")
"""Folders with a file for each task, and scripts that call Transformers themselves."""
MOST_FILES = 5
"""Files outside of these folders that name a task. Lower it when one goes; ask the task's object instead."""


def names_of_tasks() -> re.Pattern[str]:
    """Return what names a task: the name in its spellings, its module, its class, and the head of its models."""
    names = {name.replace("-", each) for name in TASKS for each in ("-", "_", " ")}
    heads = {task.head for task in TASKS.values()} | {type(task).__name__ for task in TASKS.values()}
    # Models of any task are an AutoModel, and have an nn.Embedding.
    return re.compile(rf"(?<!nn\.)\b({'|'.join(sorted((names | heads) - {'AutoModel'}))})\b", re.IGNORECASE)


def test_no_new_file_names_a_task() -> None:
    pattern = names_of_tasks()
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    naming = [
        path.relative_to(ROOT).as_posix()
        for path in files
        if not set(FOLDERS) & set(path.parents) and pattern.search(path.read_text("utf-8"))
    ]
    assert len(naming) <= MOST_FILES, naming
