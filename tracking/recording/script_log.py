"""Convert the log of a user's script to the events that our own job emits. Pure: equal lines give equal events.

Trainer's log dicts, its final tables and the matches of the user's regular expressions become `metric` events. The step
of a line is the latest match of the expression named `step`; without that expression, lines with numbers are counted
from 1. The sample count is the latest match of the expression named `samples`; without it, the count is computed from
the epochs as soon as Trainer's summary reports the runtime and the samples per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.recording import log_lines
from training.contract.events import Event
from training.contract.metric_expressions import MetricExpressions
from training.contract.service import OTHER_INSTANCE_PREFIX

FINAL_PREFIXES = ("eval_", "train_", "test_", "predict_")
"""Prefixes of the metrics that describe a whole training: their last values are the result."""
MAX_STEPS = 2**53
"""Numbers from this one up are not accepted as a step."""


@dataclass(frozen=True)
class _Progress:
    """Progress of the training at one line of the log."""

    step: int
    epoch: float
    time: float


class ScriptLogReader:
    """Reader of one log. Pass its lines in order, in pages of any size."""

    def __init__(self, regexes: Mapping[str, str]) -> None:
        self._expressions = MetricExpressions(regexes)
        self._events: list[Event] = []
        self._event_count = 0
        self._line_count = 0
        """Lines with numbers so far."""
        self._step: int | None = None
        self._epoch: float | None = None
        self._samples: float | None = None
        self._last: dict[str, float] = {}
        self._names_in_dicts: set[str] = set()
        self._eval_seconds = 0.0
        self._without_samples: list[_Progress] = []
        """Lines whose sample count is not known yet."""
        self._samples_before = 0.0
        """Samples of the earlier trainings in the same log, without the last one."""
        self._trained: tuple[float, float] | None = None
        """Epochs and samples of the training that ended last."""

    @property
    def stopped_expressions(self) -> tuple[str, ...]:
        """Names of the expressions that are no longer searched for, because they took too long."""
        return self._expressions.stopped

    def read(self, lines: Sequence[str], times: Sequence[float]) -> list[Event]:
        """Return the events of further lines; `times` are their times of writing, in seconds since the epoch.

        Only the lines of the first instance are read: a script that prints on each instance would report everything
        several times.
        """
        self._events = []
        for line, time in zip(lines, times, strict=True):
            if OTHER_INSTANCE_PREFIX.match(line):
                continue
            for part in line.split("\r"):  # a progress bar rewrites its line
                self._read_part(part, time)
        return self._events

    def result(self, time: float) -> list[Event]:
        """Return the last events of a script that completed; `time` is its end in seconds since the epoch."""
        self._events = []
        self._emit_samples()
        finals = {name: value for name, value in self._last.items() if name.startswith(FINAL_PREFIXES)}
        self._emit("result", time, metrics=finals, tables={}, steps=self._step or self._line_count)
        return self._events

    def _read_part(self, part: str, time: float) -> None:
        if table := log_lines.table_part(part):
            self._read_table(*table, time)
            return
        by_trainer = log_lines.trainer_values(part)
        values = {**by_trainer, **log_lines.matched_values(part, self._expressions)}
        if values and (self._pop_progress(values) or values):
            self._read_values(values, time, by_trainer)

    def _pop_progress(self, values: dict[str, float]) -> bool:
        """Remove step, epoch and samples from `values` and remember them; return whether samples were present."""
        step, samples = values.pop("step", None), values.pop("samples", None)
        self._epoch = values.pop("epoch", self._epoch)
        if step is not None and 0 <= step < MAX_STEPS:
            self._step = int(step)
        self._samples = self._samples if samples is None else samples
        return samples is not None

    def _read_values(self, values: Mapping[str, float], time: float, by_trainer: Mapping[str, float]) -> None:
        if "loss" in by_trainer and self._trained:
            self._start_next_training()
        self._line_count += 1
        self._emit_metric(values, time)
        self._names_in_dicts |= set(by_trainer)
        if self._samples is None and "epoch" in by_trainer:
            self._without_samples.append(_Progress(self._current_step(), by_trainer["epoch"], time))
        if "eval_runtime" in values:
            self._end_evaluation(values["eval_runtime"], time)
        if "train_runtime" in values:
            self._end_training(values, time, set(by_trainer))

    def _start_next_training(self) -> None:
        """Add the last training's samples to the count: a loss after the summary means that another training began."""
        assert self._trained is not None
        self._emit_samples()
        self._samples_before += self._trained[1]
        self._trained = None

    def _read_table(self, kind: log_lines.Kind, name: str, value: float, time: float) -> None:
        """Emit a row of a table, unless a dict of the same training already reported it."""
        if kind == "header":
            self._line_count += 1
        elif name not in self._names_in_dicts and name != "epoch":
            self._emit_metric({name: value}, time)
            if name == "eval_runtime":
                self._end_evaluation(value, time)

    def _end_training(self, values: Mapping[str, float], time: float, by_trainer: set[str]) -> None:
        """Emit the samples of a training that ended, and its seconds without the evaluations."""
        train_seconds = max(0.0, values["train_runtime"] - self._eval_seconds)
        self._emit("phase", time, phase="train", seconds=train_seconds)
        self._eval_seconds = 0.0
        self._names_in_dicts = by_trainer
        rate = values.get("train_samples_per_second")
        if rate is not None and self._epoch:
            self._trained = (self._epoch, round(rate * values["train_runtime"]))
            self._emit_samples()

    def _emit_samples(self) -> None:
        """Emit the sample counts of the lines before the summary, in proportion to their epochs."""
        if self._trained is None:
            return
        epochs, samples = self._trained
        for line in self._without_samples:
            count = self._samples_before + samples * min(1.0, line.epoch / epochs)
            self._emit("metric", line.time, step=line.step, epoch=line.epoch, samples=round(count), values={})
        self._without_samples = []

    def _end_evaluation(self, seconds: float, time: float) -> None:
        self._eval_seconds += seconds
        self._emit("phase", time, phase="eval", seconds=seconds)

    def _emit_metric(self, values: Mapping[str, float], time: float) -> None:
        progress = {"epoch": self._epoch, "samples": self._samples}
        known = {name: value for name, value in progress.items() if value is not None}
        self._emit("metric", time, step=self._current_step(), values=dict(values), **known)
        self._last |= values

    def _current_step(self) -> int:
        return self._line_count if self._step is None else self._step

    def _emit(self, kind: str, time: float, **fields: Any) -> None:
        self._events.append(Event(kind=kind, seq=self._event_count, time=time, fields=fields))
        self._event_count += 1
