"""One line of a script's log read for numbers: Trainer's dicts, its tables, and a person's expressions. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_NAME = r"[A-Za-z_][\w.-]{0,80}(?:/\w[\w.-]{0,80})?"
_DICT = re.compile(r"\{'.*\}")
# Numbers stand bare, in quotes (from transformers 5 on), or within their type (np.float64(0.5), tensor(0.5)).
_ENTRY = re.compile(rf"'({_NAME})': (?:'({NUMBER})'|(?:\w[\w.]*\()?({NUMBER})[,)}}\s])")
_HEADER = re.compile(r"\*{5} (\w+) metrics \*{5}")
_ROW = re.compile(rf"  ({_NAME}) +=  *(?:((?:\d+ days?, )?\d+:\d\d:\d\d(?:\.\d+)?)|({NUMBER}))$")
_DURATION = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")

NOT_METRICS = frozenset({"total_flos"})

Kind = Literal["header", "row"]


def number(text: str) -> float | None:
    """Return a number as logs write it, `1,500` included; None for anything else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def trainer_values(text: str) -> dict[str, float]:
    """Return the numbers of a dict that Trainer logged; it tells the epoch in each, which other dicts do not."""
    found = _DICT.search(text)
    if found is None or "'epoch': " not in found[0]:
        return {}
    told = {name: number(quoted or bare) for name, quoted, bare in _ENTRY.findall(found[0])}
    return {name: value for name, value in told.items() if value is not None and name not in NOT_METRICS}


def table_part(text: str) -> tuple[Kind, str, float] | None:
    """Return a line of a table that `Trainer.log_metrics` printed: its header, or a row's name and value.

    Durations (`0:00:12.34`) are told in seconds; what is no plain number, such as `1737GF`, is left out.
    """
    if header := _HEADER.search(text):
        return "header", header[1], math.nan
    row = _ROW.match(text)
    if row is None or row[1] in NOT_METRICS:
        return None
    value = seconds(row[2]) if row[2] else number(row[3])
    return None if value is None else ("row", row[1], value)


def seconds(duration: str) -> float | None:
    """Return `1 day, 2:03:04.5` in seconds."""
    found = _DURATION.fullmatch(duration)
    if found is None:
        return None
    return 86_400 * int(found[1] or 0) + 3_600 * int(found[2]) + 60 * int(found[3]) + float(found[4])


def matched_values(text: str, patterns: Mapping[str, re.Pattern[str]]) -> dict[str, float]:
    """Return the last number that each expression finds."""
    told: dict[str, float] = {}
    for name, pattern in patterns.items():
        for match in pattern.finditer(text):
            value = number(match[1] or "")
            told |= {} if value is None else {name: value}
    return told
