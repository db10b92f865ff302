"""Failures that every further repeat of an arm would have, too: the rule, from the exceptions of its jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Moment = Literal["import", "start", "later"]
"""Moment at which a job failed: while it was imported, otherwise before its first step, or later."""
MOMENTS: tuple[Moment, ...] = get_args(Moment)
_ALIKE = 2
"""Jobs that fail with the same exception before their first step. Then neither the seed nor chance is the cause."""
_MASKS = (
    (re.compile(r"0x[0-9a-fA-F]+|\b(?=[a-f]*\d)[0-9a-f]{8,}\b"), "HEX"),
    (re.compile(r"(?:[A-Za-z]:)?(?:[\w.~-]*[/\\])+[\w.-]*"), "PATH"),
    (re.compile(r"\d[\d,.]*"), "N"),
)


@dataclass(frozen=True, kw_only=True)
class Death:
    """Exception that ended a job."""

    exception: str
    """Class and first line of the message."""
    moment: Moment


def deterministic_failure(deaths: Sequence[Death]) -> Death | None:
    """Return the exception with which further jobs with the same setting would fail, too; None if they might not.

    One error of an import or of the syntax is enough. Other exceptions must occur twice before the first step.
    """
    if imports := [death for death in deaths if death.moment == "import"]:
        return imports[0]
    early = [death for death in deaths if death.moment == "start"]
    masked = [mask(death.exception) for death in early]
    return next((death for death, text in zip(early, masked, strict=True) if masked.count(text) >= _ALIKE), None)


def mask(exception: str) -> str:
    """Return an exception without what differs from job to job: numbers, paths and addresses."""
    for pattern, name in _MASKS:
        exception = pattern.sub(name, exception)
    return exception
