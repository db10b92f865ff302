"""What a job says, read from its log: the other end of `training/job/events.py`.

An event is a log line `trainfare-event {json}`. Every event has `event`, `seq` (0, 1, 2 ... within one start of
the job's process), `time` (seconds since the epoch, the job's clock) and, by kind:

start    versions {name: version}; device {kind, name, count, memory_gib?}; threads; hyperparameters (effective);
         samples {train, validation}; model {architecture, parameters}; resumed_from_step
phase    phase (load | compile | warmup | train_steady | eval | checkpoint | load_best | save | push), seconds
metric   step, epoch, samples (seen so far, all devices, this training from its first step), values {name: number}
result   metrics {MLflow metric name: number}; tables {file name: [row, ...]}; cache_state (off | cold | warm |
         partial); global_batch_size; steps; hub {repository, url, commit | failure}?
failure  failure_class, message, traceback
note     message

Training values keep the names of Hugging Face's log (`loss`, `learning_rate`, `grad_norm`, `eval_loss`, ...).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EVENT_PREFIX = "trainfare-event "

EVENT_KINDS = frozenset({"start", "phase", "metric", "result", "failure", "note"})

FAILURE_CLASSES = frozenset(
    {"OutOfMemory", "BadData", "Capacity", "Killed", "TimeLimit", "Stopped", "Refused", "Error"}
)
"""Why a job did not complete; a `Refused` one never started."""


@dataclass(frozen=True)
class Event:
    """One thing that a job said."""

    kind: str
    seq: int
    time: float
    """Seconds since the epoch, the job's clock."""
    fields: Mapping[str, Any]


def parse_line(line: str) -> Event | None:
    """Return the event that a log line holds, or None for any other line, a torn or foreign one included."""
    at = line.find(EVENT_PREFIX)
    if at < 0:
        return None
    try:
        fields = json.loads(line[at + len(EVENT_PREFIX) :])
        kind, seq, time = fields.pop("event"), fields.pop("seq"), fields.pop("time")
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    if kind not in EVENT_KINDS or not isinstance(seq, int) or not isinstance(time, (int, float)):
        return None
    if not math.isfinite(time):
        return None
    return Event(kind=kind, seq=seq, time=float(time), fields=fields)
