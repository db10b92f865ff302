"""Events of a job, parsed from its log. `training/job/processes/reporting.py` writes them.

An event is a log line `trainfare-event {json}`. Every event has `event` (its kind), `seq` (0, 1, 2 ... within one
start of the job's process) and `time` (seconds since the epoch, by the job's clock). Other fields depend on the kind:

start    versions {name: version}; device {kind, name, count, memory_gib?}; threads; hyperparameters (effective);
         samples {train, validation}; model {architecture, parameters}; resumed_from_step
phase    phase (load | compile | warmup | train_steady | eval | checkpoint | load_best | save), seconds
metric   step, epoch, samples (so far, over all devices, from the first step of the training), values {name: number};
         a calibration emits one per batch size, with the batch size as step and without epoch and samples
result   metrics {MLflow metric name: number}; tables {file name: [row, ...]}; cache_state (off | cold | warm |
         partial); global_batch_size; steps; hub {repository, url, commit | failure}?; rate_unknown (steps | samples |
         short; of scripts)?
failure  failure_class, message, traceback
note     message

The reporter beside a script (`training/scripts/metering/reporter.py`) writes `start` without fields, `metric` for each
value that the script logs to a tracker, and

meter    counts so far of this start: steps, batches, samples, tokens, trainings, processes ...; steady_seconds and
         steady_* between the warm-up and the last step; reasons {what is not countable: why}
logged   params and tags {name: text} of the script's MLflow run; runs (their number)

An event that is too long for one line is split into parts, `trainfare-part SEQ TIME AT/COUNT text`, which may arrive in
any order.

Training values have the same names as in the Hugging Face log (`loss`, `learning_rate`, `grad_norm`, `eval_loss`, ...).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

EVENT_PREFIX = "trainfare-event "
PART = re.compile(r"trainfare-part (\d+ \S+) (\d+)/(\d+) (.*)", re.DOTALL)

EVENT_KINDS = frozenset({"start", "phase", "metric", "result", "failure", "note", "meter", "logged"})

FAILURE_CLASSES = frozenset(
    {
        *("OutOfMemory", "DiskFull", "BadData", "Capacity", "Killed", "TimeLimit", "Stopped", "Refused", "Vanished"),
        *("Budget", "Diverged", "Error"),
    }
)
"""Reasons why a job did not complete. `Refused`: it never started. `Vanished`: its service no longer knows it.
`Budget`: it reached a time limit that its budget had lowered. `Diverged`: its loss was NaN or infinite."""


@dataclass(frozen=True)
class Event:
    """One event of a job."""

    kind: str
    seq: int
    time: float
    """Seconds since the epoch, by the clock of the job."""
    fields: Mapping[str, Any]


def parse_line(line: str) -> Event | None:
    """Return the event in a log line, or None if the line is not an event or is incomplete."""
    start = line.find(EVENT_PREFIX)
    if start < 0:
        return None
    try:
        fields = json.loads(line[start + len(EVENT_PREFIX) :])
        kind, seq, time = fields.pop("event"), fields.pop("seq"), fields.pop("time")
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    if kind not in EVENT_KINDS or not isinstance(seq, int) or not isinstance(time, (int, float)):
        return None
    if not math.isfinite(time):
        return None
    return Event(kind=kind, seq=seq, time=float(time), fields=fields)


class EventReader:
    """Reads one log in pages of any size, and joins events that are split into parts."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, int], dict[int, str]] = {}

    def read(self, lines: Iterable[str]) -> list[Event]:
        """Return the events whose last line is among these lines, in order."""
        return [event for line in lines if (event := parse_line(self._joined(line)))]

    def _joined(self, line: str) -> str:
        """Return a whole line unchanged. For a part, return the joined line if no part is missing, else no text."""
        part = PART.search(line)
        if part is None or EVENT_PREFIX in line[: part.start()]:
            return line
        key, number = (part[1], int(part[3])), int(part[2])
        parts = self._parts.setdefault(key, {})
        parts[number] = part[4]
        if len(parts) < key[1]:
            return ""
        del self._parts[key]
        return EVENT_PREFIX + "".join(parts[number] for number in sorted(parts))
