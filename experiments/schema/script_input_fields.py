"""Fields that determine what a script gets: arguments, variables, secrets and packages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from training.contract.limits import NAME_PATTERNS
from training.contract.script_entry import Form, Style
from training.scripts.entry_forms import BooleanForm
from training.scripts.likely_secrets import is_likely_secret
from training.staging.sources.request import Frozen, Name

RESERVED_PREFIXES = ("SM_", "SAGEMAKER_", "TRAINFARE_")
"""Prefixes of the variables that a service sets itself."""

VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


def _text(value: Any) -> Any:
    """Return a variable's value as text. YAML reads `1` and `true` as a number and a truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _named(value: Any) -> Any:
    """Return a list of variables as a mapping from each variable to no secret's name."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    return dict.fromkeys(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value


Hyperparameters = dict[Name, JsonValue]
VariableName = Annotated[str, Field(pattern=VARIABLE_PATTERN)]
Variables = dict[VariableName, Annotated[str, BeforeValidator(_text)]]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9/_+=.@:-]{1,512}$")]
Secrets = Annotated[dict[VariableName, SecretName | None], BeforeValidator(_named)]


class ScriptArguments(Frozen):
    """Form of a script's command-line arguments."""

    style: Style = "space"
    """Named arguments as `--name value`, as `--name=value` (`equals`), or as `name=value` (`assign`)."""
    booleans: BooleanForm = "auto"
    """Form of true and false: `value` (`--name True`), `flag` (`--name` or nothing), or `no-flag` (`--name` or
    `--no-name`). `auto` takes the form in which the script declares the argument with argparse, else `value`."""
    forms: dict[Name, Form] = Field(default={})
    """Form of single hyperparameters, by name. Takes precedence over what the script declares."""

    @model_validator(mode="before")
    @classmethod
    def _from_style(cls, value: Any) -> Any:
        return {"style": value} if isinstance(value, str) else value


def check_plain_values(field: str, values: Mapping[str, Any]) -> None:
    """Raise ValueError for a value that is likely to be a secret. The message does not contain it."""
    for name, value in values.items():
        if is_likely_secret(name, value):
            raise ValueError(
                f"{field}.{name[:60]} looks like a secret, which would be written to the request, the log and MLflow: "
                "remove it, let the script read an environment variable, and list that in script.secrets (on SageMaker "
                "with the name of a secret in AWS Secrets Manager, {HF_TOKEN: team/hub-token})"
            )


def check_names(hyperparameters: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that no service accepts, before another message contains its line breaks."""
    for name in hyperparameters:
        if not re.fullmatch(NAME_PATTERNS["hyperparameters"], name):
            raise ValueError(
                f"script.hyperparameters: the name {name[:60]!r} must not contain blanks, line ends or '='"
            )


def check_variables(environment: Mapping[str, str], secrets: Mapping[str, Any]) -> None:
    """Raise ValueError for a variable that the service sets itself, and for one that is set twice."""
    for field, names in (("script.environment", environment), ("script.secrets", secrets)):
        for name in names:
            if name.upper().startswith(RESERVED_PREFIXES):
                raise ValueError(f"{field}.{name} uses a reserved prefix: {', '.join(RESERVED_PREFIXES)}")
    for name in secrets:
        if name in environment:
            raise ValueError(f"script.secrets.{name} is also in script.environment: keep one of them")


Requirements = Literal["list", "install"]
