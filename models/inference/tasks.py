"""Tasks of saved models. Imports no library that loads a model."""

from __future__ import annotations

from pathlib import Path

from training.contract.errors import InputError
from training.job.tasks import TASKS, find_task
from training.staging.models.model_files import read_config


def read_task(folder: Path) -> str:
    """Return the task of the model in a Transformers folder. Raises `InputError`."""
    config = read_config(folder)
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InputError(f"{folder / 'config.json'} has no field 'architectures', so the model's task is unknown")
    if task := find_task(config):
        return task.name
    raise InputError(f"the model's class {names[0]!r} fits none of the supported tasks: {', '.join(TASKS)}")
