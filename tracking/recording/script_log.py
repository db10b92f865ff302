"""Convert the log of a user's script to the events that our own job emits. Pure: equal lines give equal events.

Trainer's log dicts and final tables, the lines of the formats in `script_formats` and the matches of the user's regular
expressions become `metric` events. The step of a line is the latest match of the expression named `step`; without that
expression it comes from the format, and in logs without a known format, lines with numbers are counted from 1. Samples
are the latest match of the expression named `samples`, or else the steps times the batch size, or Trainer's summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tracking.groups.planned_job import BatchSizes
from tracking.recording import log_lines
from tracking.recording.script_formats.reading import Reading
from tracking.recording.script_position import ScriptPosition, samples_per_step
from tracking.recording.script_rates import SteadyRate
from tracking.recording.script_samples import Training, samples_at
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
        self._position = ScriptPosition(batch)
        self._declared_rate = SteadyRate()
        """Meter of the samples, or else of the steps, that the user's expressions match."""
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
        """Training dict whose step the progress bar will show."""
        self._has_bar = True
        """False once a dict of Trainer was not followed by its bar."""
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
        if table := log_lines.table_part(part):
            self._release(None)
            self._read_table(*table, time)
            return
        by_trainer = log_lines.trainer_values(part)
        reading = None if by_trainer else self._position.read(part, time)
        if self._position.is_trainer and (step := self._position.trainer.read(part)) is not None:
            self._release(step)
        matched = dict(self._expressions.matches(part))
        values = {**(reading.values if reading else {}), **by_trainer, **matched}
        if values or reading:
            self._read_values(values, reading, by_trainer, matched, time)

    def _read_values(
        self,
        values: dict[str, float],
        reading: Reading | None,
        by_trainer: Mapping[str, float],
        matched: Mapping[str, float],
        time: float,
    ) -> None:
        if values:
            self._release(None)
        if "loss" in by_trainer and self._trained:
            self._start_next_training()
        has_samples = self._pop_progress(values, matched, time)
        if reading and reading.step is not None:
            self._take_position(reading)
        if by_trainer:
            self._read_dict(values, by_trainer, time)
        elif values or has_samples:
            self._record(values, time)
        elif reading and reading.step and reading.is_due and self._samples is not None:
            self._emit_metric({}, time)

    def _pop_progress(self, values: dict[str, float], matched: Mapping[str, float], time: float) -> bool:
        """Remove step, epoch and samples from `values` and remember them; return whether samples were matched."""
        step, samples = values.pop("step", None), values.pop("samples", None)
        self._epoch = values.pop("epoch", self._epoch)
        if step is not None and 0 <= step < MAX_STEPS:
            self._step = self._steps_done = int(step)
            per_step = samples_per_step(self._batch, "unknown") if self._batch else None
            if "samples" not in self._declared and per_step:
                self._samples = self._steps_done * per_step
        self._samples = self._samples if samples is None else samples
        if any(name.startswith("eval_") for name in matched):
            self._declared_rate.add_evaluation(None)
        elif samples is not None and 0 <= samples < MAX_STEPS:
            self._declared_rate.add_steps(int(samples), time)
        elif step is not None and "samples" not in self._declared and 0 <= step < MAX_STEPS:
            self._declared_rate.add_steps(int(step), time)
        return samples is not None

    def _take_position(self, reading: Reading) -> None:
        """Take step and samples from a format, unless the user's expressions give them."""
        assert reading.step is not None
        if "step" not in self._declared:
            self._step, self._steps_done = reading.step, reading.done
        if not self._declared:
            self._samples = self._position.samples_after(reading.done)
            self._fewest_samples = self._position.fewest_samples_after(reading.done)

    def _read_dict(self, values: dict[str, float], by_trainer: Mapping[str, float], time: float) -> None:
        """Record one of Trainer's dicts, or hold it until the progress bar shows its step."""
        trainer, epoch = self._position.trainer, by_trainer.get("epoch", 0.0)
        if not self._position.is_trainer:
            self._position.begin_trainer()
            self._fewest_samples = None  # of a bar before the first dict
        self._names_in_dicts = set(by_trainer) | (set() if "train_runtime" in by_trainer else self._names_in_dicts)
        if "step" in self._declared:
            self._record(values, time, epoch)
            return
        step = trainer.step_at(epoch)
        if "train_runtime" in values:
            step = trainer.last_step or step
        elif "loss" in by_trainer:
            trainer.expect(epoch)
            if step is None and self._has_bar:
                self._held = _Line(self._line_count, epoch, time, values)
                return
        self._record_at(trainer.estimate_at(epoch) if step is None else step, values, time, epoch)

    def _release(self, step: int | None) -> None:
        """Record the held dict: at the step that the bar shows, or None if the next line is not a bar."""
        if self._held is None:
            return
        line, self._held = self._held, None
        self._has_bar = step is not None
        self._record_at(step, line.values, line.time, line.epoch)

    def _record_at(self, step: int | None, values: Mapping[str, float], time: float, epoch: float) -> None:
        """Record a dict of Trainer at a step of its training."""
        if step is not None:
            self._step = self._steps_done = self._steps_before + step
            if "train_runtime" not in values and "eval_runtime" not in values:
                self._position.rate.add_steps(self._step, time)
            samples = self._position.announcement.samples_after(step)
            if samples is not None and "samples" not in self._declared:
                self._samples = self._samples_before + samples
        self._record(values, time, epoch)

    def _record(self, values: Mapping[str, float], time: float, epoch: float | None = None) -> None:
        """Emit a line's values; `epoch` is that of a dict of Trainer."""
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
        self._position.trainer.restart()
        self._position.rate.add_evaluation(None)

    def _read_table(self, kind: log_lines.Kind, name: str, value: float, time: float) -> None:
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
        if self._trained is None:
            return
        training = Training(*self._trained, self._position.trainer.last_step)
        per_step = self._batch.per_update if self._batch else 0
        for line in self._without_samples:
            count = self._samples_before + samples_at(training, line.step - self._steps_before, line.epoch, per_step)
            self._emit("metric", line.time, step=line.step, epoch=line.epoch, samples=round(count), values={})
        self._without_samples = []

    def _end_evaluation(self, seconds: float, time: float) -> None:
        self._eval_seconds += seconds
        self._position.rate.add_evaluation(seconds)
        self._emit("phase", time, phase="eval", seconds=seconds)

    def _steady(self) -> tuple[float | None, RateUnknown | None]:
        """Return the steady samples/s, or None and the reason why it is not known."""
        rate = self._declared_rate if self._declared else self._position.rate
        if not rate.has_steps:
            return None, "short" if self._steps_done else "steps"
        per_step = 1.0 if "samples" in self._declared else self._samples_per_step()
        if per_step is None:
            return None, "samples"
        per_second = rate.per_second()
        return (None, "short") if per_second is None else (per_second * per_step, None)

    def _samples_per_step(self) -> float | None:
        samples = self._samples
        if samples is None and self._trained:
            samples = self._samples_before + self._trained[1]
        return samples / self._steps_done if samples and self._steps_done else None

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
