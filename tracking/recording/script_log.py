"""Convert the log of a user's script to the events that our own job emits. Pure: equal lines give equal events.

Trainer's log dicts and final tables, the lines of the formats in `log_formats` and the matches of the user's regular
expressions become `metric` events. The step of a line is the latest match of the expression named `step`; without that
expression it comes from the format, and in logs without a known format, lines with numbers are counted from 1. Samples
are the latest match of the expression named `samples`, or else the steps times the batch size, or Trainer's summary.

The steady rate is measured at the times of the lines that show steps. The first tenth of the steps is left out: it
contains the start of the data loaders, compilation and warm-up. An evaluation whose duration is known is subtracted.
Otherwise the interval between the two lines around it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from tracking.groups.planned_job import BatchSizes
from tracking.recording.log_formats import (
    Announcement,
    LogFormats,
    Reading,
    TablePart,
    TrainerSteps,
    Unit,
    table_part,
    trainer_values,
)
from training.contract.events import Event
from training.contract.metric_expressions import MetricExpressions
from training.contract.service import OTHER_INSTANCE_PREFIX

FINAL_PREFIXES = ("eval_", "train_", "test_", "predict_")
"""Prefixes of the metrics that describe a whole training: their last values are the result."""
MAX_STEPS = 2**53
"""Numbers from this one up are not accepted as a step."""
RateUnknown = Literal["steps", "samples", "short"]
"""Reason why the steady samples/s are not known: the log shows no steps, what a step contains is not known, or the log
shows too few steps over too short a time."""
LINE_RESOLUTION_SECONDS = 0.2
"""Uncertainty of a line's time: the local service marks a log that has grown this often."""
BAR_RESOLUTION_SECONDS = 1.0
"""Progress bars display whole seconds."""
_WARM_UP_SHARE = 0.1
_LEAST_TICKS = 10
"""Least duration of a measurement in units of its resolution: an error of at most a tenth."""


@dataclass(frozen=True)
class _Line:
    """One of Trainer's lines, whose step or sample count is not known yet."""

    step: int
    epoch: float
    time: float
    values: Mapping[str, float]


class ScriptLogReader:
    """Reader of one log. Pass its lines in order, in pages of any size."""

    def __init__(self, regexes: Mapping[str, str], batch: BatchSizes | None = None) -> None:
        """`batch` are the batch sizes that the experiment passes to the script, or None if it passes none."""
        self._expressions = MetricExpressions(regexes)
        self._declared = {"step", "samples"} & regexes.keys()
        self._batch = batch
        self._announcement = Announcement()
        self._formats = LogFormats(self._announcement)
        self._trainer = TrainerSteps(self._announcement)
        self._is_trainer = False
        """True if Trainer's dicts give the steps."""
        self._rate = SteadyRate()
        """Meter of the steps, or of the samples if an expression matches them."""
        self._events: list[Event] = []
        self._event_count = 0
        self._line_count = 0
        """Lines with numbers so far."""
        self._step: int | None = None
        self._steps_done = 0
        self._steps_before = 0
        """Steps of the earlier trainings in the same log."""
        self._epoch: float | None = None
        self._samples: float | None = None
        self._fewest_samples: float | None = None
        self._last: dict[str, float] = {}
        self._names_in_dicts: set[str] = set()
        self._eval_seconds = 0.0
        self._held: _Line | None = None
        """Training dict whose step the progress bar may show."""
        self._without_samples: list[_Line] = []
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
        self._release(None)
        self._emit_samples()
        finals = {name: value for name, value in self._last.items() if name.startswith(FINAL_PREFIXES)}
        rate, unknown = self._steady()
        if rate is not None:
            finals["throughput/steady_samples_per_second"] = rate
        if self._fewest_samples is not None and self._fewest_samples != self._samples:
            finals["samples_fewest"] = self._fewest_samples
        reason = {} if unknown is None else {"rate_unknown": unknown}
        self._emit("result", time, metrics=finals, tables={}, steps=self._step or self._line_count, **reason)
        return self._events

    def _read_part(self, part: str, time: float) -> None:
        if table := table_part(part):
            self._release(None)
            self._read_table(*table, time)
            return
        by_trainer = trainer_values(part)
        self._announcement.read(part)
        if (step := self._trainer.read(part, self._held.epoch if self._held else None)) is not None:
            self._release(step)
        readings = [] if by_trainer or self._is_trainer else self._formats.read(part)
        matched = dict(self._expressions.matches(part))
        values = {name: value for reading in readings for name, value in reading.values.items()}
        values |= {**by_trainer, **matched}
        if values:
            self._release(None)
        if "loss" in by_trainer and self._trained:
            self._start_next_training()
        has_samples = self._pop_progress(values, matched, time)
        for reading in readings:
            self._take_position(reading, time)
        if by_trainer:
            self._read_dict(values, by_trainer, time)
        elif (
            values or has_samples or (self._samples is not None and any(each.step and each.is_due for each in readings))
        ):
            self._record(values, time)

    def _pop_progress(self, values: dict[str, float], matched: Mapping[str, float], time: float) -> bool:
        """Remove step, epoch and samples from `values` and remember them; return whether samples were matched."""
        step, samples = values.pop("step", None), values.pop("samples", None)
        self._epoch = values.pop("epoch", self._epoch)
        counts_samples = "samples" in self._declared
        if step is not None and 0 <= step < MAX_STEPS:
            self._step = self._steps_done = int(step)
            per_step = samples_per_step(self._batch, "unknown") if self._batch else None
            if per_step and not counts_samples:
                self._samples = self._steps_done * per_step
        self._samples = self._samples if samples is None else samples
        progress = samples if counts_samples else step
        if self._declared and any(name.startswith("eval_") for name in matched):
            self._rate.add_evaluation(None)
        elif self._declared and progress is not None and 0 <= progress < MAX_STEPS:
            self._rate.add_steps(int(progress), time)
        return samples is not None

    def _take_position(self, reading: Reading, time: float) -> None:
        """Take step and samples from a format, unless the user's expressions give them."""
        if reading.is_evaluation and not self._declared:
            self._rate.add_evaluation(None)
        if reading.step is None:
            return
        if "step" not in self._declared:
            self._step, self._steps_done = reading.step, reading.done
        if self._declared:
            return
        if not reading.is_evaluation:
            seconds = time if reading.bar_seconds is None else reading.bar_seconds
            self._rate.add_steps(reading.done, seconds, reading.bar)
        self._samples = self._fewest_samples = self._announcement.samples_after(reading.done)
        if self._samples is None and (per_step := self._batch_of_step(reading)):
            self._samples = reading.done * per_step
            self._fewest_samples = max(0, self._samples - reading.epochs * (per_step - 1))

    def _batch_of_step(self, reading: Reading) -> int | None:
        """Return the samples of a whole batch of a step, according to the log or else to the experiment."""
        if self._announcement.batch_size:
            return self._announcement.batch_size
        if reading.bar is None and (logged := self._formats.logged_batch_size) is not None:
            return logged
        return samples_per_step(self._batch, reading.unit) if self._batch else None

    def _read_dict(self, values: dict[str, float], by_trainer: Mapping[str, float], time: float) -> None:
        """Record one of Trainer's dicts, or hold it until the progress bar shows its step."""
        epoch = by_trainer.get("epoch", 0.0)
        if not self._is_trainer:
            self._is_trainer, self._fewest_samples = True, None
            self._rate = self._rate if self._declared else SteadyRate()  # without a bar before the first dict
        self._names_in_dicts = set(by_trainer) | (set() if "train_runtime" in by_trainer else self._names_in_dicts)
        if "step" in self._declared:
            self._record(values, time, epoch)
        elif "train_runtime" in values:
            self._record_at(self._trainer.last_step or self._trainer.step_at(epoch), values, time, epoch)
        elif "loss" in by_trainer and not self._announcement.steps_per_epoch:
            self._held = _Line(self._line_count, epoch, time, values)
        else:
            self._record_at(self._trainer.step_at(epoch), values, time, epoch)

    def _release(self, step: int | None) -> None:
        """Record the held dict: at the step that the bar shows, or None if the next line is not a bar."""
        if self._held is not None:
            line, self._held = self._held, None
            step = self._trainer.step_at(line.epoch) if step is None else step
            self._record_at(step, line.values, line.time, line.epoch)

    def _record_at(self, step: int | None, values: Mapping[str, float], time: float, epoch: float) -> None:
        """Record a dict of Trainer at a step of its training."""
        if step is not None:
            self._step = self._steps_done = self._steps_before + step
            if not self._declared and not {"train_runtime", "eval_runtime"} & values.keys():
                self._rate.add_steps(self._step, time)
            samples = self._announcement.samples_after(step)
            if samples is not None and "samples" not in self._declared:
                self._samples = self._samples_before + samples
        self._record(values, time, epoch)

    def _record(self, values: Mapping[str, float], time: float, epoch: float | None = None) -> None:
        """Emit a line's values; `epoch` comes from a dict of Trainer."""
        self._line_count += 1
        self._emit_metric(values, time)
        if epoch is not None and self._samples is None:
            self._without_samples.append(_Line(self._current_step(), epoch, time, {}))
        if "eval_runtime" in values:
            self._end_evaluation(values["eval_runtime"], time)
        if "train_runtime" in values:
            self._end_training(values, time)

    def _start_next_training(self) -> None:
        """Add the last training's samples to the count: a loss after the summary means that another training began."""
        assert self._trained is not None
        self._emit_samples()
        self._samples_before += self._trained[1]
        self._steps_before = self._step or 0
        self._trained = None
        self._trainer = TrainerSteps(self._announcement)
        self._rate.add_evaluation(None)

    def _read_table(self, kind: TablePart, name: str, value: float, time: float) -> None:
        """Emit a row of a table, unless a dict of the same training already reported it."""
        if kind == "header":
            self._line_count += 1
        elif name not in self._names_in_dicts and name != "epoch":
            self._emit_metric({name: value}, time)
            if name == "eval_runtime":
                self._end_evaluation(value, time)

    def _end_training(self, values: Mapping[str, float], time: float) -> None:
        """Emit the samples of a training that ended, and its seconds without the evaluations."""
        train_seconds = max(0.0, values["train_runtime"] - self._eval_seconds)
        self._emit("phase", time, phase="train", seconds=train_seconds)
        self._eval_seconds = 0.0
        rate = values.get("train_samples_per_second")
        if rate is not None and self._epoch:
            self._trained = (self._epoch, round(rate * values["train_runtime"]))
            self._emit_samples()

    def _emit_samples(self) -> None:
        """Emit the sample counts of the lines before the summary, in proportion to their epochs."""
        if self._trained is not None:
            epochs, samples = self._trained
            for line in self._without_samples:
                count = round(self._samples_before + samples * min(1.0, line.epoch / epochs))
                self._emit("metric", line.time, step=line.step, epoch=line.epoch, samples=count, values={})
            self._without_samples = []

    def _end_evaluation(self, seconds: float, time: float) -> None:
        self._eval_seconds += seconds
        self._rate.add_evaluation(seconds)
        self._emit("phase", time, phase="eval", seconds=seconds)

    def _steady(self) -> tuple[float | None, RateUnknown | None]:
        """Return the steady samples/s, or None and the reason why it is not known."""
        if not self._rate.has_steps:
            return None, "short" if self._steps_done else "steps"
        samples = self._samples
        if samples is None and self._trained:
            samples = self._samples_before + self._trained[1]
        per_step = samples / self._steps_done if samples and self._steps_done else None
        if "samples" in self._declared:
            per_step = 1.0
        if per_step is None:
            return None, "samples"
        per_second = self._rate.per_second()
        return (None, "short") if per_second is None else (per_second * per_step, None)

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


def samples_per_step(batch: BatchSizes, unit: Unit) -> int | None:
    """Return the samples of one step of a log; None if it is not certain what a step is."""
    if batch.per_update == batch.per_batch or unit == "update":
        return batch.per_update
    return batch.per_batch if unit == "batch" else None


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """A step and the time at which the log showed it."""

    time: float
    steps: int
    clock: int | None
    """Number of the progress bar that displayed the time; None for the time of a line."""
    eval_seconds: float | None
    """Duration of the evaluations since the previous mark; None if one ran and its duration is not known."""


class SteadyRate:
    """Meter of a training's steps, or of its samples."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._eval_seconds: float | None = 0.0

    def add_evaluation(self, seconds: float | None) -> None:
        """Note that an evaluation ran since the last step; None if its duration is not known."""
        known = self._eval_seconds is not None and seconds is not None
        self._eval_seconds = (self._eval_seconds or 0.0) + (seconds or 0.0) if known else None

    def add_steps(self, steps: int, time: float, clock: int | None = None) -> None:
        """Note that so many steps had ended at this time."""
        if self._marks and steps <= self._marks[-1].steps:
            return
        self._marks.append(_Mark(time=time, steps=steps, clock=clock, eval_seconds=self._eval_seconds))
        self._eval_seconds = 0.0

    def per_second(self) -> float | None:
        """Return the steady rate; None if too few lines, over too short a time, show it."""
        # The steps before the first line with a finished step, the slowest of all, are never counted.
        warm = max(1, _WARM_UP_SHARE * self._marks[-1].steps) if self._marks else 1
        steps, seconds, least_seconds, is_joined = 0, 0.0, 0.0, False
        for before, after in pairwise(mark for mark in self._marks if mark.steps >= warm):
            was_joined = is_joined
            is_joined = before.clock == after.clock and after.eval_seconds is not None and after.time >= before.time
            if is_joined:
                resolution = LINE_RESOLUTION_SECONDS if after.clock is None else BAR_RESOLUTION_SECONDS
                least_seconds += 0.0 if was_joined else _LEAST_TICKS * resolution
                steps += after.steps - before.steps
                seconds += after.time - before.time - (after.eval_seconds or 0.0)
        enough = steps > 0 and seconds > 0 and math.isfinite(seconds) and seconds >= least_seconds
        return steps / seconds if enough else None

    @property
    def has_steps(self) -> bool:
        """True if any line showed a step."""
        return bool(self._marks)
