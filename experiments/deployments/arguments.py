"""What the fields of these verbs may be, each refused in one sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from models.endpoints.protocol import NAME_PATTERN
from training.contract.errors import InputError, nearest

SERVICES = ("local", "sagemaker")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_LIFETIME_SECONDS = 366 * 86400


def known_only(verb: str, given: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise `InputError` for a field that the verb does not have, and for one that is empty."""
    for name, value in given.items():
        if name not in known and not (name.startswith("aws.") and "service" in known):
            raise InputError(f"unknown field '{name}' of {verb}: {', '.join(known)}.{nearest(name, known)}")
        if not value.strip() and name != "text":
            raise InputError(f"{name} is empty.")


def one_of(name: str, text: str, known: Sequence[str]) -> str:
    """Return one of the words. Raises `InputError`."""
    if text not in known:
        raise InputError(f"{name} is '{text}': it must be one of {', '.join(known)}.{nearest(text, known)}")
    return text


def service_named(given: Mapping[str, str]) -> str | None:
    """Return the service that is asked for, if any."""
    return one_of("service", given["service"], SERVICES) if "service" in given else None


def truth(given: Mapping[str, str], name: str) -> bool:
    """Return whether a field is true; false where it is not given."""
    return one_of(name, given.get(name, "false"), ("true", "false")) == "true"


def name_checked(name: str, text: str) -> str:
    """Return an endpoint's name. Raises `InputError`."""
    if not NAME_PATTERN.fullmatch(text):
        raise InputError(f"{name} is '{text}': an endpoint's name is up to 63 letters, digits and, between them, '-'.")
    return text


def seconds(name: str, text: str) -> float:
    """Return the seconds of `90s`, `30m`, `2h`, `1.5h` or `7d`. Raises `InputError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < found <= _MOST_LIFETIME_SECONDS:
        raise InputError(f"{name} is '{text}': it must be a time such as 90s, 30m, 2h or 7d, of a year at most.")
    return found


def whole(name: str, text: str, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`. Raises `InputError`."""
    if not text.strip().isdecimal() or not low <= int(text) <= high:
        raise InputError(f"{name} is '{text}': it must be a whole number from {low} to {high}.")
    return int(text)


def aws_fields(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields `aws.*` by their names below that, as an experiment has them. Raises `InputError`."""
    texts = {name: value for name, value in given.items() if name.startswith("aws.")}
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
        where = ".".join(("aws", *map(str, wrong["loc"])))
        raise InputError(f"{where} is {wrong['input']!r}: {wrong['msg']}.") from error
