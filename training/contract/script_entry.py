"""Settings of our entry point, which starts those scripts that SageMaker's toolkit alone cannot start.

`training/scripts/trainfare_entry.py` reads them in the job; the toolkit passes them on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

FILE = "trainfare_entry.py"
"""Name of our entry point in the source of a job."""
KEY = "sagemaker_trainfare_entry"
"""Hyperparameter that holds the settings. The toolkit passes no name that starts with `sagemaker_` to the script."""

Style = Literal["space", "equals", "assign"]
"""Named arguments as `--name value`, `--name=value` or `name=value`."""

_SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def is_shell_safe(word: str) -> bool:
    """Return whether a shell passes a word on as it is.

    The toolkit joins a command's words with blanks and gives them to a shell, without quotes (sagemaker-training 5.1.1,
    `process.py`; aws/sagemaker-training-toolkit#128, open). Blanks split a word there, and `$`, `;` and others act.
    """
    return _SHELL_SAFE.fullmatch(word) is not None


class ScriptEntry(BaseModel):
    """Settings of our entry point for one script."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    style: Style = "space"
    """Style of named arguments."""
    flags: bool = False
    """True if the names of true values are passed alone, and false values not at all."""
    words: tuple[str, ...] = ()
    """Arguments before all named ones."""
    secrets: Mapping[str, str] = {}
    """Environment variable to the secret of AWS Secrets Manager that holds its value, by name or ARN."""
    values: Mapping[str, JsonValue] = {}
    """Hyperparameters that the toolkit's shell would change. These settings carry them instead of the request's own
    hyperparameters."""

    def carrying(self, hyperparameters: Mapping[str, JsonValue]) -> ScriptEntry:
        """Return the settings with the values of a job: those of other repeats may differ, such as a seed."""
        return self.model_copy(update={"values": {name: hyperparameters[name] for name in self.values}})

    def settings(self, program: str) -> dict[str, Any]:
        """Return the value of the hyperparameter `KEY` for this program, without settings that have no effect."""
        return {"program": program, **self.model_dump(mode="json", exclude_defaults=True)}
