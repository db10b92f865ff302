"""A script's log becomes the events that our own job tells, measured from outside. Pure: equal lines, equal events.

Trainer's log dicts, its final tables and a person's expressions become `metric` events. A line's step is the number
that an expression named `step` found, on it or before it; without one, lines that tell numbers are counted: 1, 2, 3 ...
The samples seen are what an expression named `samples` found; without one, they follow from the epochs as soon as
Trainer's summary tells runtime and samples a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.recording import log_lines as read
from training.contract.events import Event
from training.contract.service import OTHER_MACHINE

FINAL_PREFIXES = ("eval_", "train_", "test_", "predict_")
"""Numbers that tell of the whole rather than of a moment: the last ones are the result."""
MOST_STEPS = 2**53
"""A larger number is no step, whatever expression found it."""


@dataclass(frozen=True)
class _Place:
    """Where in the training a line stands."""

    step: int
    epoch: float
    time: float


class Listener:
    """Is given the lines of one log in their order, in pages of any size."""

    def __init__(self, regexes: Mapping[str, str]) -> None:
        self._patterns = {name: re.compile(regex) for name, regex in regexes.items()}
        self._events: list[Event] = []
        self._count = 0
        self._lines_told = 0
        self._step: int | None = None
        self._epoch: float | None = None
        self._samples: float | None = None
        self._last: dict[str, float] = {}
        self._told_by_dict: set[str] = set()
        self._evaluated_seconds = 0.0
        self._waiting: list[_Place] = []
        self._samples_before = 0.0
        self._trained: tuple[float, float] | None = None

    def listen(self, lines: Sequence[str], times: Sequence[float]) -> list[Event]:
        """Return the events of further lines; `times` are those at which they were written, seconds since the epoch.

        Of several machines the first one tells: scripts that print on each would tell everything twice.
        """
        self._events = []
        for line, time in zip(lines, times, strict=True):
            if OTHER_MACHINE.match(line):
                continue
            for part in line.split("\r"):  # a progress bar rewrites its line
                self._hear(part, time)
        return self._events

    def result(self, time: float) -> list[Event]:
        """Return the last events of a script that completed, at the time of its end."""
        self._events = []
        self._tell_samples()
        finals = {name: value for name, value in self._last.items() if name.startswith(FINAL_PREFIXES)}
        self._tell("result", time, metrics=finals, tables={}, steps=self._step or self._lines_told)
        return self._events

    def _hear(self, part: str, time: float) -> None:
        if table := read.table_part(part):
            self._hear_table(*table, time)
            return
        by_trainer = read.trainer_values(part)
        values = {**by_trainer, **read.matched_values(part, self._patterns)}
        if values and (self._place(values) or values):
            self._hear_values(values, time, by_trainer)

    def _place(self, values: dict[str, float]) -> bool:
        """Take what says where the line stands out of its values; return whether it tells the samples."""
        step, samples = values.pop("step", None), values.pop("samples", None)
        self._epoch = values.pop("epoch", self._epoch)
        if step is not None and 0 <= step < MOST_STEPS:
            self._step = int(step)
        self._samples = self._samples if samples is None else samples
        return samples is not None

    def _hear_values(self, values: Mapping[str, float], time: float, by_trainer: Mapping[str, float]) -> None:
        if "loss" in by_trainer and self._trained:
            self._begin_again()
        self._lines_told += 1
        self._metric(values, time)
        self._told_by_dict |= set(by_trainer)
        if self._samples is None and "epoch" in by_trainer:
            self._waiting.append(_Place(self._step_now(), by_trainer["epoch"], time))
        if "eval_runtime" in values:
            self._evaluated(values["eval_runtime"], time)
        if "train_runtime" in values:
            self._summary(values, time, set(by_trainer))

    def _begin_again(self) -> None:
        """A loss after the summary: the script trains a second time."""
        assert self._trained is not None
        self._tell_samples()
        self._samples_before += self._trained[1]
        self._trained = None

    def _hear_table(self, kind: read.Kind, name: str, value: float, time: float) -> None:
        """Tell a row of a table, but for what a dict of the same training has told before."""
        if kind == "header":
            self._lines_told += 1
        elif name not in self._told_by_dict and name != "epoch":
            self._metric({name: value}, time)
            if name == "eval_runtime":
                self._evaluated(value, time)

    def _summary(self, values: Mapping[str, float], time: float, by_trainer: set[str]) -> None:
        """Trainer has ended a training: its seconds without evaluations, and its samples."""
        inside = max(0.0, values["train_runtime"] - self._evaluated_seconds)
        self._tell("phase", time, phase="train", seconds=inside)
        self._evaluated_seconds = 0.0
        self._told_by_dict = by_trainer
        rate = values.get("train_samples_per_second")
        if rate is not None and self._epoch:
            self._trained = (self._epoch, round(rate * values["train_runtime"]))
            self._tell_samples()

    def _tell_samples(self) -> None:
        """Tell the samples of the lines that waited for them."""
        if self._trained is None:
            return
        epochs, samples = self._trained
        for place in self._waiting:
            seen = self._samples_before + samples * min(1.0, place.epoch / epochs)
            self._tell("metric", place.time, step=place.step, epoch=place.epoch, samples=round(seen), values={})
        self._waiting = []

    def _evaluated(self, seconds: float, time: float) -> None:
        self._evaluated_seconds += seconds
        self._tell("phase", time, phase="eval", seconds=seconds)

    def _metric(self, values: Mapping[str, float], time: float) -> None:
        told = {"epoch": self._epoch, "samples": self._samples}
        known = {name: value for name, value in told.items() if value is not None}
        self._tell("metric", time, step=self._step_now(), values=dict(values), **known)
        self._last |= values

    def _step_now(self) -> int:
        return self._lines_told if self._step is None else self._step

    def _tell(self, kind: str, time: float, **fields: Any) -> None:
        self._events.append(Event(kind=kind, seq=self._count, time=time, fields=fields))
        self._count += 1
