"""Settings of our entry point, which starts those scripts that SageMaker's toolkit alone cannot start.

`training/scripts/trainfare_entry.py` reads them in the job; the toolkit passes them on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

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

    def settings(self, program: str) -> dict[str, Any]:
        """Return the value of the hyperparameter `KEY` for this program, without settings that have no effect."""
        style = {} if self.style == "space" else {"style": self.style}
        fields = {"forms": dict(self.forms), "positional": list(self.positional), "secrets": dict(self.secrets)}
        return {"program": program, **style, **{name: value for name, value in fields.items() if value}}
