"""Readers for the options of verbs. Each raises `InputError` for a wrong value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from experiments.schema.other_names import hint
from training.contract.errors import InputError, InputErrors, nearest

MAY_BE_EMPTY = ("text", "allow", "fail-on")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_SECONDS = 366 * 86400

Name = TypeVar("Name", bound=str)


def check_known(verb: str, fields: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise `InputError` for a field that the verb does not have."""
    for name in fields:
        if name not in known and not (name.startswith("aws.") and "service" in known):
            raise InputError(
                f"unknown field '{name}' of {verb}: it must be one of {', '.join(known)}.{hint(name, known)}"
            )


def check_not_empty(fields: Mapping[str, str]) -> None:
    """Raise `InputError` for an empty field, such as an unset shell variable."""
    for name, value in fields.items():
        if not value.strip() and name not in MAY_BE_EMPTY:
            raise InputError(f"--{name} is empty.")


def one_of(name: str, text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise InputError(f"--{name} is '{text}': it must be one of {', '.join(known)}.{nearest(text, known)}")
    return text


def read_flag(fields: Mapping[str, str], name: str, default: str = "false") -> bool:
    if (text := fields.get(name, default)) not in {"true", "false"}:
        raise InputError(f"--{name} is '{text}': it must be true or false.")
    return text == "true"


def read_list(text: str) -> tuple[str, ...]:
    """Return the names in a text, which commas separate."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def read_choices(name: str, text: str, known: Sequence[Name]) -> frozenset[Name]:
    """Return the names in a text, which commas separate. Each must be one of `known`."""
    for each in (chosen := read_list(text)):
        if each not in known:
            raise InputError(f"--{name} contains '{each}': it may contain {', '.join(known)}.{nearest(each, known)}")
    return frozenset(each for each in known if each in chosen)


def read_fail_on(fields: Mapping[str, str]) -> frozenset[str]:
    from reports.comparison.report import FAIL_ON

    return read_choices("fail-on", fields.get("fail-on", ""), FAIL_ON)


def read_service(fields: Mapping[str, str], known: Iterable[str]) -> str | None:
    """Return the service, or None if `--service` is not set."""
    return one_of("service", fields["service"], list(known)) if "service" in fields else None


def read_name(name: str, text: str) -> str:
    """Return the name of an endpoint."""
    from models.endpoints.protocol import NAME_PATTERN

    if not NAME_PATTERN.fullmatch(text):
        raise InputError(f"--{name} is '{text}': an endpoint's name has up to 63 letters and digits, with '-' between.")
    return text


def read_seconds(name: str, text: str) -> float:
    """Return a duration such as `90s`, `30m`, `1.5h` or `7d` in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    duration = float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    if not 0 < duration <= _MAX_SECONDS:
        raise InputError(f"--{name} is '{text}': it must be a time such as 90s, 30m, 2h or 7d, at most 366d.")
    return duration


def read_whole(name: str, text: str, low: int, high: int) -> int:
    if not text.strip().isdecimal() or not low <= int(text) <= high:
        raise InputError(f"--{name} is '{text}': it must be a whole number from {low} to {high}.")
    return int(text)


def read_aws(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields `aws.*` as a mapping without the prefix, validated as in an experiment."""
    texts = {name: value for name, value in fields.items() if name.startswith("aws.")}
    if not texts:
        return {}
    from pydantic import ValidationError

    from experiments.schema.overrides import messages, with_overrides
    from experiments.schema.sections import AwsOptions
    from experiments.schema.yaml_document import Document

    try:
        return AwsOptions.model_validate(with_overrides({}, texts)).aws.given()
    except ValidationError as error:
        raise InputErrors(messages(error, Document("options", {}), {name: f"--{name}" for name in texts})) from error
