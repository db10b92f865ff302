"""Settings of our entry point, which starts those scripts that SageMaker's toolkit alone cannot start.

`training/scripts/trainfare_entry.py` reads them in the job; the toolkit passes them on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, JsonValue

FILE = "trainfare_entry.py"
"""Name of our entry point in the source of a job."""
KEY = "sagemaker_trainfare_entry"
"""Hyperparameter that holds the settings. The toolkit passes no name that starts with `sagemaker_` to the script."""

Style = Literal["space", "equals", "assign"]
"""Named arguments as `--name value`, `--name=value` or `name=value`."""
Form = Literal["value", "flag", "no-flag", "empty", "list", "repeat", "comma", "json", "positional"]
"""Form of one argument:

- `value`: its name and its value as text, as the toolkit passes it. A mapping becomes `key=value,key=value`.
- `flag`: its name alone for true, nothing for false.
- `no-flag`: `--name` for true, `--no-name` for false.
- `empty`: its name and its value, with an empty text for false.
- `list`: its name once, followed by all values.
- `repeat`: its name before each value.
- `comma`: its name and all values joined by commas.
- `json`: its name and its value as JSON.
- `positional`: its value or values alone, before all other arguments.
"""
FORMS: tuple[str, ...] = get_args(Form)


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
    forms: Mapping[str, Form] = {}
    """Form of each hyperparameter whose form is not `value`, except positional ones."""
    positional: tuple[str, ...] = ()
    """Hyperparameters that are passed by position, in order."""
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
        style = {} if self.style == "space" else {"style": self.style}
        fields: dict[str, Any] = {
            "forms": dict(self.forms),
            "positional": list(self.positional),
            "secrets": dict(self.secrets),
        }
        fields["values"] = dict(self.values)
        return {"program": program, **style, **{name: value for name, value in fields.items() if value}}
