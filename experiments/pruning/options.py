"""The words after `jobs prune`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from experiments.pruning.rules import DEFAULT_KINDS, KINDS, Choice
from training.contract.errors import InputError, nearest

OPTIONS = ("--what", "--older-than", "--group", "--yes")
SECONDS = {"h": 3600.0, "d": 86_400.0}


def options(words: Sequence[str]) -> tuple[Choice, bool]:
    """Return what is chosen, and whether the question is answered with it. Raises InputError."""
    given = _given(words)
    choice = Choice(
        kinds=_kinds(given["--what"]) if "--what" in given else DEFAULT_KINDS,
        older_than_seconds=_seconds(given["--older-than"]) if "--older-than" in given else 0.0,
        group=given.get("--group"),
    )
    return choice, "--yes" in given


def _given(words: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name not in OPTIONS:
            raise InputError(f"unknown option '{name}' of jobs prune: {', '.join(OPTIONS)}.{nearest(name, OPTIONS)}")
        if name != "--yes":
            value = value or (rest.pop(0) if rest else "")
            if not value or value.startswith("--"):
                raise InputError(f"{name} of jobs prune has no value.")
        given[name] = value
    return given


def _kinds(text: str) -> frozenset[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in KINDS:
            raise InputError(f"--what is '{name}': it must be of {', '.join(KINDS)}.{nearest(name, KINDS)}")
    return frozenset(names)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([hd])", text)
    if not found:
        raise InputError(f"--older-than is '{text}': it must be a number of hours or days, such as 12h or 7d.")
    return int(found[1]) * SECONDS[found[2]]
