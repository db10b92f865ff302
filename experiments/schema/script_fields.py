"""Fields of an experiment that runs a user's own training script."""

from __future__ import annotations

import shlex

from pydantic import Field, model_validator

from experiments.schema.script_input_fields import (
    Hyperparameters,
    Requirements,
    ScriptArguments,
    Secrets,
    Variables,
    check_entry_point,
    check_names,
    check_plain_values,
    check_values,
    check_variables,
)
from experiments.schema.script_metric_fields import ScriptMetrics, check_metrics
from training.scripts.channels import ScriptChannels, check_channels
from training.staging.sources.request import Frozen, Name


class Script(Frozen):
    """Training script that runs unchanged instead of a task."""

    source: Name
    """Folder or git URL that contains the script."""
    revision: Name | None = None
    """Branch, tag or commit of a git URL. None means the default branch."""
    directory: Name | None = None
    """Folder within the source to copy into the job. None copies the whole source."""
    entry_point: Name = "train.py"
    """Program to run: a Python file, shell script (`.sh`) or other executable in that folder, or a module (`-m
    package.train`). Words after it come before all hyperparameters: `train.py config.yaml`."""
    hyperparameters: Hyperparameters = Field(default={})
    """Named arguments: texts, numbers, true or false, lists and mappings. `$batch_size` inserts that field of
    the experiment; null leaves the argument out."""
    arguments: ScriptArguments = ScriptArguments()
    """Form of the named arguments. A text sets the style: `equals` for `--name=value`."""
    environment: Variables = Field(default={})
    """Environment variables of the script, on both services."""
    secrets: Secrets = Field(default={})
    """Environment variables with secrets: a list of names, or a mapping from each name to a secret of AWS Secrets
    Manager. On this machine, the values come from the variables of the command."""
    requirements: Requirements = "list"
    """`list` the packages of the script's `requirements.txt` that are missing on this machine, or `install` them into
    an environment of their own. SageMaker always installs those of a Python script."""
    metrics: ScriptMetrics = Field(default={})
    """Metrics by name. Each is a regular expression with one group, or a mapping of `pattern`, `unit` (`fraction`,
    `percent` or `number`) and `better` (`higher` or `lower`). The first with a direction measures the quality. `step`,
    `epoch` and `samples` give the progress. Logs of known frameworks need no expressions: see docs/scripts.md."""
    channels: ScriptChannels = Field(default={})
    """File or folder for each `SM_CHANNEL_...` variable. `package:NAME` is a packaged model, `builtin:docstrings` the
    built-in data. On SageMaker, `s3://BUCKET/PREFIX/` stays where it is. A mapping sets how SageMaker passes the data:
    see docs/aws.md."""

    @model_validator(mode="after")
    def _check(self) -> Script:
        check_entry_point(self.entry_point)
        check_names(self.hyperparameters)
        check_values(self.hyperparameters)
        check_plain_values("script.hyperparameters", self.hyperparameters)
        check_plain_values("script.environment", self.environment)
        check_variables(self.environment, self.secrets)
        check_metrics(self.metrics)
        check_channels(self.channels)
        return self

    @property
    def program(self) -> str:
        """The program of the entry point: a file, or `-m` and the name of a module."""
        words = shlex.split(self.entry_point)
        return " ".join(words[: 2 if words[0] == "-m" else 1])

    @property
    def words(self) -> tuple[str, ...]:
        """The words that the entry point passes to its program."""
        words = shlex.split(self.entry_point)
        return tuple(words[2 if words[0] == "-m" else 1 :])

    @property
    def patterns(self) -> dict[str, str]:
        """The regular expressions by metric name."""
        return {name: metric.pattern for name, metric in self.metrics.items() if metric.pattern is not None}
