"""Readers for the options of these verbs; each raises `InputError` for a wrong value. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from models.endpoints.protocol import NAME_PATTERN
from training.contract.errors import InputError, nearest

SERVICES = ("local", "sagemaker")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_SECONDS = 366 * 86400


def check_known(verb: str, fields: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise `InputError` for a field that the verb does not have."""
    for name in fields:
        if name not in known and not (name.startswith("aws.") and "service" in known):
            raise InputError(
                f"unknown field '{name}' of {verb}: it must be one of {', '.join(known)}.{nearest(name, known)}"
            )


def check_not_empty(fields: Mapping[str, str]) -> None:
    """Raise `InputError` for an empty field; only `text` may be empty."""
    for name, value in fields.items():
        if not value.strip() and name != "text":
            raise InputError(f"--{name} is empty.")


def one_of(name: str, text: str, known: Sequence[str]) -> str:
    """Return the text, which must be one of `known`. Raises `InputError`."""
    if text not in known:
        raise InputError(f"--{name} is '{text}': it must be one of {', '.join(known)}.{nearest(text, known)}")
    return text


def read_service(fields: Mapping[str, str]) -> str | None:
    """Return the service, or None if `--service` is not set. Raises `InputError`."""
    return one_of("service", fields["service"], SERVICES) if "service" in fields else None


def read_flag(fields: Mapping[str, str], name: str) -> bool:
    """Return a field that is `true` or `false`, by default False. Raises `InputError`."""
    return one_of(name, fields.get(name, "false"), ("true", "false")) == "true"


def read_name(name: str, text: str) -> str:
    """Return the name of an endpoint. Raises `InputError`."""
    if not NAME_PATTERN.fullmatch(text):
        raise InputError(f"--{name} is '{text}': an endpoint's name has up to 63 letters and digits, with '-' between.")
    return text


def read_seconds(name: str, text: str) -> float:
    """Return a duration such as `90s`, `30m`, `1.5h` or `7d` in seconds. Raises `InputError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    duration = float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    if not 0 < duration <= _MAX_SECONDS:
        raise InputError(f"--{name} is '{text}': it must be a time such as 90s, 30m, 2h or 7d, at most 366d.")
    return duration


def read_whole(name: str, text: str, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`. Raises `InputError`."""
    if not text.strip().isdecimal() or not low <= int(text) <= high:
        raise InputError(f"--{name} is '{text}': it must be a whole number from {low} to {high}.")
    return int(text)


def read_aws(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields `aws.*` as a mapping without the prefix, validated as in an experiment. Raises `InputError`."""
    texts = {name: value for name, value in fields.items() if name.startswith("aws.")}
    if not texts:
        return {}
    from pydantic import ValidationError

    from experiments.schema.machine_fields import Aws
    from experiments.schema.overrides import is_field, unknown_field, with_overrides

    for name in texts:
        if not is_field(name):
            raise InputError(unknown_field(name, f"{name}={texts[name]}"[:80]))
    try:
        return Aws.model_validate(with_overrides({}, texts)["aws"]).given()
    except ValidationError as error:
        wrong = error.errors()[0]
        path = ".".join(("aws", *map(str, wrong["loc"])))
        raise InputError(f"--{path} is {wrong['input']!r}: {wrong['msg']}.") from error
