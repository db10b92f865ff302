"""Read the numbers in one line of a script's log: Trainer's dicts and its tables. Pure."""

from __future__ import annotations

import math
import re
from typing import Literal

from training.contract.metric_expressions import number

# No two adjacent parts match the same digits, or the time would grow with the square of their number.
NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_NAME = r"[A-Za-z_][\w.-]{0,80}(?:/\w[\w.-]{0,80})?"
# Numbers are bare, quoted (from transformers 5 on), or wrapped in their type (np.float64(0.5), tensor(0.5)).
_ENTRY = re.compile(rf"'({_NAME})': (?:'({NUMBER})'|(?:\w[\w.]*\()?({NUMBER})[,)}}\s])")
_HEADER = re.compile(r"\*{5} (\w+) metrics \*{5}")
_ROW = re.compile(rf"  ({_NAME}) +=  *(?:((?:\d+ days?, )?\d+:\d\d:\d\d(?:\.\d+)?)|({NUMBER}))$")
_DURATION = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)")

NOT_METRICS = frozenset({"total_flos"})

Kind = Literal["header", "row"]


def trainer_values(text: str) -> dict[str, float]:
    """Return the numbers of a dict that Trainer logged. Only these dicts contain the epoch."""
    # Not an expression such as \{'.*\}: its time grows with the square of a line that repeats {'.
    start, end = text.find("{'"), text.rfind("}")
    entries = text[start : end + 1] if start >= 0 else ""
    if "'epoch': " not in entries:
        return {}
    values = {name: number(quoted or bare) for name, quoted, bare in _ENTRY.findall(entries)}
    return {name: value for name, value in values.items() if value is not None and name not in NOT_METRICS}


def table_part(text: str) -> tuple[Kind, str, float] | None:
    """Parse a line of a table that `Trainer.log_metrics` printed: its header, or the name and value of a row.

    Durations (`0:00:12.34`) are converted to seconds. Values that are not plain numbers, such as `1737GF`, are omitted.
    """
    if header := _HEADER.search(text):
        return "header", header[1], math.nan
    row = _ROW.match(text)
    if row is None or row[1] in NOT_METRICS:
        return None
    value = seconds(row[2]) if row[2] else number(row[3])
    return None if value is None else ("row", row[1], value)


def seconds(duration: str) -> float | None:
    """Convert a duration such as `1 day, 2:03:04.5` to seconds."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        return None
    return 86_400 * int(match[1] or 0) + 3_600 * int(match[2]) + 60 * int(match[3]) + float(match[4])
