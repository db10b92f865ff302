"""Convert the log of a user's script to the events that our own job emits. Pure: equal lines give equal events.

Three sources give numbers. The reporter beside the script prints events: what its meter counts, and what the script
logs to MLflow or TensorBoard. Trainer prints dicts and final tables. The user's expressions match lines.

The step of a line is the latest match of the expression named `step`. Without that expression it is Trainer's or else
the last step that an event or the count of lines with numbers shows. Samples are the meter's, the latest match of the
expression named `samples`, the steps times the declared samples of a step, or those of Trainer's summary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from tracking.recording.trainer_log import TrainerSteps, table_row, trainer_values
from training.contract.events import Event, parse_line
from training.contract.metric_expressions import MetricExpressions
from training.contract.service import OTHER_INSTANCE_PREFIX
from training.job.tasks import METRICS_BY_NAME

FINAL_PREFIXES = ("eval_", "train_", "test_", "predict_")
"""Prefixes of the metrics that describe a whole training: their last values are the result."""
BEST = "best/"
"""Prefix of the best value of an evaluated metric whose better direction is known."""
LOWER_IS_BETTER = ("loss", "perplexity")
"""Ends of the names of metrics whose lower values are better, if nothing else is known."""
MAX_STEPS = 2**53
"""Numbers from this one up are not accepted as a step."""
RateUnknown = Literal["steps", "samples", "short"]
"""Reason why the steady samples/s are not known: no steps were seen, what a step contains is not known, or there were
too few steps over too short a time."""
LINE_RESOLUTION_SECONDS = 0.2
"""Uncertainty of a line's time: the local service marks a log that has grown this often."""
_PRINTED = 1e-3
"""Relative precision of a printed number: Trainer prints four digits."""
_WARM_UP_SHARE = 0.1
_LEAST_TICKS = 10
"""Least duration of a measurement in units of its resolution: an error of at most a tenth."""
LOGGED = "logged/"
"""Prefix of a metric of a script whose name looks like one of ours."""
_NOT_A_NAME = re.compile(r"[^\w\-. /]+")
_EVALUATION = re.compile(r"(?:validation|valid|val|eval)[_/]")
_OWN = frozenset(
    {"best", "calibration", "cost", "machine", "memory", "model", "probe", "projected", "script", "system", "target"}
    | {"throughput", "time"}
)
"""Beginnings of our own metrics, before the slash."""


def metric_name(name: str) -> str:
    """Return the name under which a metric of a script is recorded.

    `val_loss` and `eval/loss` are `eval_loss`, and `train/loss` is `loss`, as in our own jobs. Characters that MLflow
    refuses become `_`. Names that look like those of our own metrics begin with `LOGGED`.
    """
    plain = _NOT_A_NAME.sub("_", name).strip("/ ") or "_"
    if evaluation := _EVALUATION.match(plain):
        return f"eval_{plain[evaluation.end() :]}"
    if plain.startswith("train/"):
        return plain.removeprefix("train/")
    return f"{LOGGED}{plain}" if "/" in plain and plain.split("/")[0] in _OWN else plain


def expression_of(metric: str) -> str:
    """Return an example of the expression of a metric, as the experiment has it."""
    return f"`script: {{metrics: {{{metric}: '{metric.removeprefix('eval_')} ([0-9.]+)'}}}}`"


@dataclass(frozen=True)
class _Line:
    """One of Trainer's lines, whose step or sample count is not known yet."""

    step: int
    epoch: float
    time: float
    values: Mapping[str, float]


class ScriptLogReader:
    """Reader of one log. Pass its lines in order, in pages of any size."""

    def __init__(
        self,
        regexes: Mapping[str, str],
        samples_per_step: int | None = None,
        higher_is_better: Mapping[str, bool] | None = None,
        target: str | None = None,
    ) -> None:
        """The experiment declares `samples_per_step`, the better direction of a metric, and the target's metric."""
        self._target = target
        self._expressions = MetricExpressions(regexes)
        self._declared = {"step", "samples"} & regexes.keys()
        self._samples_per_step = samples_per_step
        known = {name: metric.higher_is_better for name, metric in METRICS_BY_NAME.items()}
        self._higher_is_better = {**known, **(higher_is_better or {})}
        self._trainer = TrainerSteps()
        self._is_trainer = False
        """True if Trainer's dicts give the steps."""
        self._rate = SteadyRate()
        """Meter of the steps that the log shows, or of the samples if an expression matches them."""
        self._metered = Metered()
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
        self._last: dict[str, float] = {}
        self._best: dict[str, float] = {}
        self._seen: dict[str, dict[int, float]] = {}
        """Values by metric and step."""
        self._renamed: dict[str, str] = {}
        """Names that MLflow refuses, or that could be ours -> the names in MLflow."""
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
            if event := parse_line(line):
                self._read_event(event)
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
        finals |= {f"{BEST}{name}": value for name, value in self._best.items()}
        finals |= self._metered.metrics()
        rate, unknown = self._steady()
        if rate is not None:
            finals["throughput/steady_samples_per_second"] = rate
        reason: dict[str, Any] = {} if unknown is None else {"rate_unknown": unknown}
        if self._metered.reasons:
            reason["not_countable"] = self._metered.reasons
        for sentence in [
            *self._quality_sentences(),
            *self._metered.sentences(self._declared),
            *self._renamed_sentences(),
        ]:
            self._emit("note", time, message=sentence)
        steps = self._metered.steps or self._step or self._line_count
        self._emit("result", time, metrics=finals, tables={}, steps=steps, **reason)
        return self._events

    def _read_event(self, event: Event) -> None:
        """Take an event of the reporter beside the script."""
        if event.kind == "start":
            if self._metered.start():
                self._emit("restart", event.time)
        elif event.kind == "meter":
            self._metered.update(event.fields)
            if not self._metered.steps:
                return
            samples = {"samples": self._metered.samples} if self._metered.samples is not None else {}
            self._emit("metric", event.time, step=self._metered.steps, values={}, **samples)
        elif event.kind == "metric":
            step = int(event.fields["step"])
            named = self._unseen(self._named(event.fields.get("values", {})), step)
            if named:
                self._emit("metric", event.time, step=step, values=named)
                self._remember(named)
        elif event.kind == "logged":
            self._metered.runs = int(event.fields.get("runs", 1))
            self._emit("logged", event.time, **event.fields)

    def _named(self, values: Mapping[str, float]) -> dict[str, float]:
        named = {name: metric_name(name) for name in values}
        self._renamed |= {
            name: own for name, own in named.items() if _NOT_A_NAME.search(name) or own.startswith(LOGGED)
        }
        return {named[name]: float(value) for name, value in values.items()}

    def _read_part(self, part: str, time: float) -> None:
        if row := table_row(part):
            self._release(None)
            name = metric_name(row[0])
            if name not in self._names_in_dicts and name != "epoch":  # no dict of the same training reported it
                self._emit_metric({name: row[1]}, time)
            return
        by_trainer = self._named(trainer_values(part))
        if (step := self._trainer.read(part, self._held.epoch if self._held else None)) is not None:
            self._release(step)
        matched = dict(self._expressions.matches(part))
        values = {**by_trainer, **matched}
        if values:
            self._release(None)
        if "loss" in by_trainer and self._trained:
            self._start_next_training()
        has_samples = self._pop_progress(values, matched, time)
        if by_trainer:
            self._read_dict(values, by_trainer, time)
        elif values or has_samples:
            self._record(values, time)

    def _pop_progress(self, values: dict[str, float], matched: Mapping[str, float], time: float) -> bool:
        """Remove step, epoch and samples from `values` and remember them; return whether samples were matched."""
        step, samples = values.pop("step", None), values.pop("samples", None)
        self._epoch = values.pop("epoch", self._epoch)
        counts_samples = "samples" in self._declared
        if step is not None and 0 <= step < MAX_STEPS:
            self._step = self._steps_done = int(step)
            if self._samples_per_step and not counts_samples:
                self._samples = self._steps_done * self._samples_per_step
        self._samples = self._samples if samples is None else samples
        progress = samples if counts_samples else step
        if self._declared and any(name.startswith("eval_") for name in matched):
            self._rate.add_evaluation(None)
        elif self._declared and progress is not None and 0 <= progress < MAX_STEPS:
            self._rate.add_steps(int(progress), time)
        return samples is not None

    def _read_dict(self, values: dict[str, float], by_trainer: Mapping[str, float], time: float) -> None:
        """Record one of Trainer's dicts, or hold it until the progress bar shows its step."""
        epoch = by_trainer.get("epoch", 0.0)
        if not self._is_trainer:
            self._is_trainer = True
            self._rate = self._rate if self._declared else SteadyRate()  # without a bar before the first dict
        self._names_in_dicts = set(by_trainer) | (set() if "train_runtime" in by_trainer else self._names_in_dicts)
        if "step" in self._declared:
            self._record(values, time, epoch)
        elif "train_runtime" in values:
            self._record_at(self._trainer.last_step or self._trainer.step_at(epoch), values, time, epoch)
        elif "loss" in by_trainer:
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
        if step is not None:
            self._step = self._steps_done = self._steps_before + step
            if not self._declared and not {"train_runtime", "eval_runtime"} & values.keys():
                self._rate.add_steps(self._step, time)
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
        self._trainer = TrainerSteps()
        self._rate.add_evaluation(None)

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
        if self._trained is not None and self._metered.samples is None:
            epochs, samples = self._trained
            for line in self._without_samples:
                count = round(self._samples_before + samples * min(1.0, line.epoch / epochs))
                self._emit("metric", line.time, step=line.step, epoch=line.epoch, samples=count, values={})
        if self._trained is not None:
            self._without_samples = []

    def _end_evaluation(self, seconds: float, time: float) -> None:
        self._eval_seconds += seconds
        self._rate.add_evaluation(seconds)
        self._emit("phase", time, phase="eval", seconds=seconds)

    def _quality_sentences(self) -> list[str]:
        """Return how to declare the quality, if no metric measures it."""
        if self._target and self._target not in self._last:
            return [f"it logged no {self._target}, so it reached no target: add {expression_of(self._target)}"]
        if self._last.keys() & {*self._higher_is_better, "train_loss"}:
            return []
        evaluated = sorted(name for name in self._last if name.startswith("eval_"))
        if evaluated:
            entry = f"{evaluated[0]}: {{unit: fraction, better: higher}}"
            return [f"no metric measures its quality: add `script: {{metrics: {{{entry}}}}}` to the experiment"]
        return [
            "it logged no quality, so only its cost can be compared: log an evaluation to MLflow or TensorBoard, or "
            f"add an expression, such as {expression_of('eval_accuracy')}"
        ]

    def _renamed_sentences(self) -> list[str]:
        listed = ", ".join(f"{name} as {own}" for name, own in sorted(self._renamed.items()))
        return [f"recorded under other names: {listed}"] if listed else []

    def _steady(self) -> tuple[float | None, RateUnknown | None]:
        """Return the steady samples/s, or None and the reason why it is not known."""
        if self._metered.counts_samples and "samples" not in self._declared:
            per_second = self._metered.per_second("samples")
            return (None, "short") if per_second is None else (per_second, None)
        samples = self._samples
        if samples is None and self._trained:
            samples = self._samples_before + self._trained[1]
        if samples and (per_second := self._metered.per_second("steps")) is not None:
            return per_second * samples / self._metered.steps, None
        if not self._rate.has_steps:
            return None, "short" if self._steps_done or self._metered.steps else "steps"
        per_step = samples / self._steps_done if samples and self._steps_done else None
        if "samples" in self._declared:
            per_step = 1.0
        if per_step is None:
            return None, "samples"
        per_second = self._rate.per_second()
        return (None, "short") if per_second is None else (per_second * per_step, None)

    def _emit_metric(self, values: Mapping[str, float], time: float) -> None:
        # The meter's own samples stand at the meter's steps.
        samples = None if self._metered.samples is not None else self._samples
        progress = {"epoch": self._epoch, "samples": samples}
        known = {name: value for name, value in progress.items() if value is not None}
        step = self._current_step()
        self._emit("metric", time, step=step, values=self._unseen(values, step), **known)
        self._remember(values)

    def _unseen(self, values: Mapping[str, float], step: int) -> dict[str, float]:
        """Return the values without those that another source has reported: Trainer prints what it logs to MLflow."""
        new = {
            name: value
            for name, value in values.items()
            if not math.isclose(value, self._seen.get(name, {}).get(step, math.nan), rel_tol=_PRINTED)
        }
        for name, value in new.items():
            self._seen.setdefault(name, {})[step] = value
        return new

    def _remember(self, values: Mapping[str, float]) -> None:
        self._last |= values
        for name, value in values.items():
            higher = self._higher_is_better.get(name, False if name.endswith(LOWER_IS_BETTER) else None)
            if name.startswith("eval_") and higher is not None and math.isfinite(value):
                self._best[name] = (max if higher else min)(value, self._best.get(name, value))

    def _current_step(self) -> int:
        if self._step is not None:
            return self._step
        return self._metered.steps or self._line_count

    def _emit(self, kind: str, time: float, **fields: Any) -> None:
        self._events.append(Event(kind=kind, seq=self._event_count, time=time, fields=fields))
        self._event_count += 1


class Metered:
    """Counts of the meter, over all starts of a job: `training/scripts/metering/reporter.py` describes them."""

    def __init__(self) -> None:
        self._starts = 0
        self._before: dict[str, float] = {}
        """Counts of the earlier starts."""
        self._now: Mapping[str, Any] = {}
        self.runs = 1
        """Runs that the script logged to MLflow."""

    def start(self) -> bool:
        """Note that the job started; return whether it had started before."""
        self._starts += 1
        self._before = {name: self._total(name) for name in ("steps", "batches", "samples", "tokens", "trainings")}
        self._now = {}
        return self._starts > 1

    def update(self, counts: Mapping[str, Any]) -> None:
        self._now = counts

    def _total(self, name: str) -> float:
        return self._before.get(name, 0.0) + float(self._now.get(name, 0.0))

    @property
    def steps(self) -> int:
        return int(self._total("steps"))

    @property
    def reasons(self) -> dict[str, str]:
        """Reasons by what is not countable."""
        return dict(self._now.get("reasons", {}))

    @property
    def counts_samples(self) -> bool:
        return bool(self.steps) and not {"samples", "steps"} & self.reasons.keys()

    @property
    def samples(self) -> int | None:
        """Samples of all steps; None if they are not countable."""
        return int(self._total("samples")) if self.counts_samples else None

    def per_second(self, name: str) -> float | None:
        seconds = float(self._now.get("steady_seconds", 0.0))
        return float(self._now[f"steady_{name}"]) / seconds if seconds > 0 else None

    def sentences(self, declared: Collection[str]) -> list[str]:
        """Return what the user should know about the counts, without those that expressions declare."""
        trainings, errors, found = int(self._total("trainings")), int(self._now.get("errors", 0)), []
        if trainings > 1:
            found.append(f"the script ran {trainings} trainings: steps and samples are those of all of them")
        if self.runs > 1:
            found.append(f"the script logged {self.runs} runs to MLflow, of which the first is recorded")
        if why := self.reasons.get("tracker"):
            found.append(f"what it logged could not be read to the end: {why}")
        if errors:
            found.append(f"its meter had {errors} errors, such as {self.reasons.get('meter', 'an unknown one')}")
        ways = {"samples": "script.samples_per_step declares them", "steps": "the expression `step` can read them"}
        for what, way in ways.items():
            if what not in declared and (why := self.reasons.get(what)):
                found.append(f"its {what} are not countable, because {why}: {way}")
        return found

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the job's result."""
        if not self._now:
            return {}
        found = {f"script/{name}": self._total(name) for name in ("steps", "batches", "trainings")}
        found |= {
            f"script/{name}": float(self._now.get(name, 0.0)) for name in ("skipped_steps", "processes", "errors")
        }
        if self.counts_samples and self._total("tokens"):
            found["script/tokens"] = self._total("tokens")
            if (rate := self.per_second("tokens")) is not None:
                found["throughput/steady_tokens_per_second"] = rate
        if (rate := self.per_second("steps")) is not None:
            found["throughput/steady_steps_per_second"] = rate
        for name, own in _MEMORY.items():
            if value := float(self._now.get(name, 0.0)):
                found[own] = value
        return found


_MEMORY = {
    "gpu_peak_gib": "memory/peak_allocated_gib",
    "resident_gib": "memory/peak_resident_gib",
    "seconds_before_first_step": "time/before_first_step_seconds",
    "parameters": "model/parameters",
    "trainable_parameters": "model/trainable_parameters",
}
"""Field of the meter -> metric."""


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """A step and the time at which the log showed it."""

    time: float
    steps: int
    eval_seconds: float | None
    """Duration of the evaluations since the previous mark; None if one ran and its duration is not known."""


class SteadyRate:
    """Meter of a training's steps, or of its samples, at the times of the lines that show them.

    The first tenth of the steps is left out: it contains the start of the data loaders, compilation and warm-up. An
    evaluation whose duration is known is subtracted. Otherwise the interval between the two lines around it is left
    out.
    """

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._eval_seconds: float | None = 0.0

    def add_evaluation(self, seconds: float | None) -> None:
        """Note that an evaluation ran since the last step; None if its duration is not known."""
        known = self._eval_seconds is not None and seconds is not None
        self._eval_seconds = (self._eval_seconds or 0.0) + (seconds or 0.0) if known else None

    def add_steps(self, steps: int, time: float) -> None:
        """Note that so many steps had ended at this time."""
        if self._marks and steps <= self._marks[-1].steps:
            return
        self._marks.append(_Mark(time=time, steps=steps, eval_seconds=self._eval_seconds))
        self._eval_seconds = 0.0

    def per_second(self) -> float | None:
        """Return the steady rate; None if too few lines, over too short a time, show it."""
        # The steps before the first line with a finished step, the slowest of all, are never counted.
        warm = max(1, _WARM_UP_SHARE * self._marks[-1].steps) if self._marks else 1
        steps, seconds, least_seconds, is_joined = 0, 0.0, 0.0, False
        for before, after in pairwise(mark for mark in self._marks if mark.steps >= warm):
            was_joined = is_joined
            is_joined = after.eval_seconds is not None and after.time >= before.time
            if is_joined:
                least_seconds += 0.0 if was_joined else _LEAST_TICKS * LINE_RESOLUTION_SECONDS
                steps += after.steps - before.steps
                seconds += after.time - before.time - (after.eval_seconds or 0.0)
        enough = steps > 0 and seconds > 0 and math.isfinite(seconds) and seconds >= least_seconds
        return steps / seconds if enough else None

    @property
    def has_steps(self) -> bool:
        return bool(self._marks)
