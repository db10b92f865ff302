"""The fields of a script."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from training.contract.errors import InputError
from training.contract.job_spec import MetricDefinition, Scalar
from training.contract.limits import check_metric
from training.staging.sources.request import Frozen, Name


def _single(value: Any) -> Any:
    if value is None or isinstance(value, Scalar):
        return value
    raise ValueError(f"a hyperparameter must be a single value, not {str(value)[:60]}")


def _expression(value: Any) -> Any:
    try:
        check_metric(MetricDefinition(name="metric", regex=str(value)))
    except InputError as error:
        raise ValueError(str(error).removeprefix("Metric 'metric': ").rstrip(".")) from error
    return str(value)


MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,249}$")]
"""Without a slash: names with one are ours."""
Hyperparameter = Annotated[str | int | float | bool | None, BeforeValidator(_single)]
Expression = Annotated[str, BeforeValidator(_expression)]


class Script(Frozen):
    """A script of somebody's own, run unchanged, in place of a task."""

    source: Name
    """Folder, or git URL, that holds it."""
    revision: Name | None = None
    """Branch, tag or commit of a git URL; None is its default branch."""
    directory: Name | None = None
    """Folder within the source whose files the job gets; None is all of it."""
    entry_point: Name = "train.py"
    """File to run, within that folder."""
    hyperparameters: dict[Name, Hyperparameter] = Field(default={})
    """Its command-line arguments; `$batch_size` takes a field of the experiment, none leaves the argument out."""
    metrics: dict[MetricName, Expression] = Field(default={})
    """Regular expression of one group for each number to read from its log; `step`, `epoch` and `samples` say where
    in the training the line stands. Trainer's log needs none."""
    channels: dict[Name, Name] = Field(default={})
    """File or folder behind each `SM_CHANNEL_...`; also `package:NAME`, a packaged model, and `builtin:docstrings`."""
