"""Fields of an experiment that runs a user's own training script."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from training.contract.errors import InputError
from training.contract.job_spec import MetricDefinition, Scalar
from training.contract.limits import check_metric
from training.staging.sources.request import Frozen, Name


def _check_single_value(value: Any) -> Any:
    if value is None or isinstance(value, Scalar):
        return value
    raise ValueError(f"a hyperparameter must be a single value, not {str(value)[:60]}")


def _check_expression(value: Any) -> Any:
    try:
        check_metric(MetricDefinition(name="metric", regex=str(value)))
    except InputError as error:
        raise ValueError(str(error).removeprefix("Metric 'metric': ").rstrip(".")) from error
    return str(value)


MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,249}$")]
"""Name without a slash: names with a slash are reserved for our own metrics."""
Hyperparameter = Annotated[str | int | float | bool | None, BeforeValidator(_check_single_value)]
Expression = Annotated[str, BeforeValidator(_check_expression)]


class Script(Frozen):
    """Training script that runs unchanged instead of a task."""

    source: Name
    """Folder or git URL that contains the script."""
    revision: Name | None = None
    """Branch, tag or commit of a git URL. None means the default branch."""
    directory: Name | None = None
    """Folder within the source to copy into the job. None copies the whole source."""
    entry_point: Name = "train.py"
    """File to run, relative to that folder."""
    hyperparameters: dict[Name, Hyperparameter] = Field(default={})
    """Command-line arguments. `$batch_size` inserts that field of the experiment; null leaves the argument out."""
    metrics: dict[MetricName, Expression] = Field(default={})
    """Regular expressions that read numbers from the log, each with one group. The names `step`, `epoch` and `samples`
    give the progress at a line. The log of Transformers' Trainer needs no expressions."""
    channels: dict[Name, Name] = Field(default={})
    """File or folder for each `SM_CHANNEL_...` variable. `package:NAME` is a packaged model, `builtin:docstrings` the
    built-in data."""
