"""Fields that determine what a script gets: arguments, variables, secrets and packages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from training.contract.job_spec import Style
from training.contract.request import NAME_PATTERNS
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
    """Form of a script's named arguments."""

    style: Style = "space"
    """Named arguments as `--name value`, as `--name=value` (`equals`), or as `name=value` (`assign`)."""
    booleans: Literal["auto", "value", "flag"] = "auto"
    """Form of true and false: `value` (`--name True`) or `flag` (`--name` or nothing). `auto` is `value`, and refused
    if the program seems to declare flags."""
    forms: dict[Name, JsonValue] = Field(default={})
    """No longer used; must be empty."""

    @model_validator(mode="before")
    @classmethod
    def _from_style(cls, value: Any) -> Any:
        value = {"style": value} if isinstance(value, str) else value
        fields = value if isinstance(value, dict) else {}
        if fields.get("forms") or fields.get("booleans") == "no-flag":
            gone = "forms no longer exists" if fields.get("forms") else "booleans can no longer be 'no-flag'"
            raise ValueError(
                f"script.arguments.{gone}: write such arguments after the program in script.entry_point, such as "
                "'train.py config.yaml --no-amp', or as the text that the script reads in script.hyperparameters, or "
                "set script.arguments.booleans to flag"
            )
        return value


def check_entry_point(entry_point: str) -> None:
    """Raise ValueError for words that no shell could split, that are likely to be secrets, or that name a field."""
    try:
        words = shlex.split(entry_point)
    except ValueError as error:
        raise ValueError(f"script.entry_point {entry_point[:80]!r} has an open quote: close it") from error
    if not words:
        raise ValueError("script.entry_point must name a program, such as train.py")
    options = [
        (name.lstrip("-"), value or after)
        for (name, _, value), after in zip((word.partition("=") for word in words), [*words[1:], ""], strict=True)
    ]
    if any(is_likely_secret(name, value) for name, value in [*options, *(("", word) for word in words)]):
        raise ValueError(_secret("script.entry_point"))
    if any(word.startswith("$") for _, word in options):
        raise ValueError(
            f"script.entry_point {entry_point[:80]!r} cannot insert fields: pass $NAME through script.hyperparameters"
        )


def check_values(hyperparameters: Mapping[str, Any]) -> None:
    """Raise ValueError for a value that is no text, number or boolean within a list or mapping."""
    for name, value in hyperparameters.items():
        parts = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else ()
        if any(isinstance(part, dict | list) or part is None for part in parts):
            raise ValueError(
                f"script.hyperparameters.{name[:60]} has a list, a mapping or null within its value: write it as "
                "the text that the script reads, such as JSON"
            )


def check_plain_values(field: str, values: Mapping[str, Any]) -> None:
    """Raise ValueError for a value that is likely to be a secret. The message does not contain it."""
    for name, value in values.items():
        if is_likely_secret(name, value):
            raise ValueError(_secret(f"{field}.{name[:60]}"))


def _secret(field: str) -> str:
    return (
        f"{field} looks like a secret, which would be written to the request, the log and MLflow: remove it, let the "
        "script read an environment variable, and list that in script.secrets (on SageMaker with the name of a secret "
        "in AWS Secrets Manager, {HF_TOKEN: team/hub-token})"
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
