"""A sweep's specification, read from `sweep.json`, and its trials and calibrations, made from its jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from judging.step_time import StepTime
from reports.comparison.arms import NOT_OF_THE_SETTING, STEADY, Job
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.model.numbers import short

Kind = Literal["completed", "worse", "not reached", "pruned", "failed", "stopped", "running"]
"""Outcome of a trial. A trial that is `worse` completed, but its quality is beyond the bound."""

KINDS: tuple[Kind, ...] = ("completed", "worse", "not reached", "pruned", "failed", "stopped", "running")

COST_COLUMNS = {"billable_seconds": BILLABLE, "usd": DOLLARS.column, "steady_samples_per_second": STEADY}

CALIBRATION_COLUMNS = (
    *("fits", "step_seconds", "step_seconds_low", "step_seconds_high"),
    *("samples_per_second", "peak_memory_gib"),
)
"""Metrics of a calibration; MLflow's step is the batch size."""


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """Objective, search space and fitted models of a sweep; unknown values are NaN, None or empty."""

    cost: str = "billable_seconds"
    """`billable_seconds` or `usd`, which are minimized, or `steady_samples_per_second`, which is maximized."""
    metric: str | None = None
    """Metric that measures the quality, such as `eval_loss`."""
    higher_is_better: bool = False
    target: float | None = None
    """Quality to reach."""
    bound: float | None = None
    """Worst acceptable quality."""
    is_front: bool = False
    """True if the quality is a second objective."""
    batch_sizes: tuple[float, ...] = ()
    """Samples per device."""
    multipliers: tuple[float, ...] = (1.0,)
    """Factors applied to the learning rate from the scaling rule."""
    compilers: tuple[str, ...] = ()
    base_compiler: str | None = None
    base_batch_size: float = math.nan
    base_multiplier: float = 1.0
    samples: float = math.nan
    """Samples of the whole training."""
    models: Mapping[str, StepTime] = field(default_factory=dict)
    """Fitted step times by compiler."""
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Shares of batch size and learning rate in the differences in cost, by compiler."""
    stopped_because: Mapping[str, str] = field(default_factory=dict)
    """Reason why the search ended, by compiler."""
    train_command: str | None = None
    """Command that trains the winner."""

    @property
    def is_rate(self) -> bool:
        """True if the objective is a rate (samples per second), where more is better."""
        return self.cost == "steady_samples_per_second"

    @property
    def points(self) -> int:
        """Number of settings in the whole grid."""
        return len(self.compilers) * len(self.batch_sizes) * len(self.multipliers)


def read_spec(document: Mapping[str, Any]) -> SweepSpec:
    """Return the specification in a `sweep.json`. Invalid parts are treated as missing."""
    objective, base = _spec_mapping(document.get("objective")), _spec_mapping(document.get("base"))
    models = {
        name: model
        for name, each in _spec_mapping(document.get("models")).items()
        if (model := _model(_spec_mapping(each)))
    }
    shares = {
        name: _numbers_of(_spec_mapping(each)) for name, each in _spec_mapping(document.get("importances")).items()
    }
    return SweepSpec(
        cost=_spec_text(objective.get("cost")) or "billable_seconds",
        metric=_spec_text(objective.get("metric")),
        higher_is_better=objective.get("higher_is_better") is True,
        target=_spec_number(objective.get("target")),
        bound=_spec_number(objective.get("bound")),
        is_front=objective.get("is_front") is True,
        batch_sizes=_numbers(document.get("batch_sizes")),
        multipliers=_numbers(document.get("multipliers")) or (1.0,),
        compilers=tuple(filter(None, map(_spec_text, _list(document.get("compilers"))))),
        base_compiler=_spec_text(base.get("compiler")),
        base_batch_size=_or_nan(base.get("batch_size")),
        base_multiplier=_spec_number(base.get("multiplier")) or 1.0,
        samples=_or_nan(document.get("samples")),
        models=models,
        importances={name: each for name, each in shares.items() if each},
        stopped_because={
            name: text
            for name, each in _spec_mapping(document.get("stopped_because")).items()
            if (text := _spec_text(each))
        },
        train_command=_spec_text(document.get("train_command")),
    )


def _model(document: Mapping[str, Any]) -> StepTime | None:
    names = ("step_seconds_fixed", "step_seconds_per_sample", "relative_error")
    fixed, per_sample, error = (_or_nan(document.get(name)) for name in names)
    model = StepTime(step_seconds_fixed=fixed, step_seconds_per_sample=per_sample, relative_error=error)
    return model if model.step_seconds(1) > 0 else None


def _numbers_of(value: Mapping[str, Any]) -> dict[str, float]:
    return {name: number for name, each in value.items() if (number := _spec_number(each)) is not None and number >= 0}


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(sorted({number for each in _list(value) if (number := _spec_number(each)) is not None and number > 0}))


def _or_nan(value: Any) -> float:
    number = _spec_number(value)
    return math.nan if number is None else number


def _spec_number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _spec_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _spec_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Setting:
    """The parameters that a trial varies."""

    compiler: str
    batch_size: float
    """Samples per device; NaN if the job did not record it."""
    multiplier: float = 1.0
    """Factor applied to the learning rate from the scaling rule."""

    @property
    def point(self) -> str:
        """Batch size and rate, such as `batch 64, rate × 2`; empty if the job did not record them."""
        rate = f", rate × {self.multiplier:.3g}" if self.multiplier != 1 else ""
        return f"batch {self.batch_size:g}{rate}" if self.batch_size > 0 else ""

    def __str__(self) -> str:
        return f"{self.compiler} at {self.point}" if self.point else self.compiler


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial with its outcome, cost and quality."""

    job: Job
    setting: Setting
    number: float
    kind: Kind
    end: str
    """The outcome in words, such as `pruned: behind the best`."""
    cost: float
    """Cost by the sweep's objective; NaN if unknown."""
    quality: float
    """Quality of the last evaluation."""
    second_cost: float | None = None
    """Cost of the second training of a finalist; NaN if it failed or missed the goal, None without one."""

    @property
    def mean_cost(self) -> float:
        """Geometric mean cost of both trainings of a finalist, else the trial's cost."""
        return self.cost if not self._is_confirmed else math.sqrt(self.cost * (self.second_cost or math.nan))

    @property
    def _is_confirmed(self) -> bool:
        return self.second_cost is not None and math.isfinite(self.second_cost)

    @property
    def failure(self) -> str:
        """Reason for a failure: the last line of the failure message. Empty for other outcomes."""
        lines = (self.job.text.get("failure_message") or "").strip().splitlines() if self.kind == "failed" else []
        return short(lines[-1], 160) if lines else ""

    @property
    def has_value(self) -> bool:
        """True if the trial can be the best one: it completed with the required quality and a known cost."""
        return self.kind == "completed" and math.isfinite(self.cost)


@dataclass(frozen=True, kw_only=True)
class Size:
    """One batch size of a calibration."""

    batch_size: float
    fits: bool
    """True if it fits the device's memory."""
    step_seconds: float
    low: float
    """Lower end of the 95 % interval of `step_seconds`."""
    high: float
    samples_per_second: float
    peak_memory_gib: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Measurements of one compiler's calibration."""

    compiler: str
    job: Job
    sizes: tuple[Size, ...]
    """Ordered by batch size."""

    @property
    def largest(self) -> float:
        """Largest batch size that fits; NaN if no size fits."""
        return max((size.batch_size for size in self.sizes if size.fits), default=math.nan)

    @property
    def too_large(self) -> tuple[float, ...]:
        """Batch sizes that do not fit."""
        return tuple(size.batch_size for size in self.sizes if not size.fits)


def setting_of(job: Job) -> Setting:
    """Return a job's setting."""
    factor = _number(job, "multiplier", "platform_multiplier", "hp_learning_rate_multiplier")
    size = _number(job, "batch_size", "hp_batch_size")
    compiler = job.text.get("compiler_setting") or job.text.get("compiler") or "none"
    return Setting(compiler, size, rounded(factor) if factor > 0 else 1.0)


def rounded(multiplier: float) -> float:
    """Return a factor rounded to six digits, as in run tags, so equal factors compare equal."""
    return float(f"{multiplier:.6g}")


def trial_of(job: Job, spec: SweepSpec) -> Trial:
    """Return the trial of a sweep with this specification that a job ran."""
    quality = job.number(spec.metric or "")
    kind, end = _end(job, spec, quality)
    cost = job.compared(COST_COLUMNS.get(spec.cost, BILLABLE))
    return Trial(
        job=job,
        setting=setting_of(job),
        number=_number(job, "trial"),
        kind=kind,
        end=end,
        cost=cost if 0 < cost < math.inf else math.nan,
        quality=quality if math.isfinite(quality) else math.nan,
    )


def ranked(trials: Sequence[Trial], spec: SweepSpec) -> tuple[Trial, ...]:
    """Return the trials with a comparable cost, the best first, followed by the others by outcome."""
    sign = -1 if spec.is_rate else 1

    def key(trial: Trial) -> tuple[bool, int, float, float]:
        comparable = trial.kind in ("completed", "worse") and math.isfinite(trial.cost)
        number = trial.number if math.isfinite(trial.number) else math.inf
        return not trial.has_value, KINDS.index(trial.kind), sign * trial.mean_cost if comparable else math.inf, number

    return tuple(sorted(trials, key=key))


def with_second_costs(trials: Sequence[Trial], second: Sequence[Trial]) -> list[Trial]:
    """Return the trials with the costs of the second trainings that have ended.

    One whose end says nothing about the setting, for example because a person stopped it, does not count.
    """
    ended = [each for each in second if each.kind != "running"]
    counting = [each for each in ended if each.job.text.get("failure_class") not in NOT_OF_THE_SETTING]
    costs = {each.setting: each.cost if each.has_value else math.nan for each in counting}
    return [replace(trial, second_cost=costs.get(trial.setting)) for trial in trials]


def front(trials: Sequence[Trial], spec: SweepSpec) -> tuple[Trial, ...]:
    """Return the Pareto-optimal trials in cost and quality, the cheapest first."""
    sign, better = -1 if spec.is_rate else 1, -1 if spec.higher_is_better else 1
    ended = [t for t in trials if t.kind in ("completed", "worse") and math.isfinite(t.cost + t.quality)]
    unbeaten: list[Trial] = []
    for trial in sorted(ended, key=lambda t: (sign * t.cost, better * t.quality)):
        if not unbeaten or better * trial.quality < better * unbeaten[-1].quality:
            unbeaten.append(trial)
    return tuple(unbeaten)


def calibration_of(job: Job, points: pd.DataFrame | None) -> Calibration:
    """Return a job's calibration; `points` is its `histories` table of `CALIBRATION_COLUMNS`, stepped by batch size."""
    by_size: dict[float, dict[str, float]] = {}
    for row in [] if points is None else points.to_dict("records"):
        by_size.setdefault(float(row["step"]), {})[str(row["key"]).removeprefix("calibration/")] = float(row["value"])
    sizes = tuple(_size(size, metrics) for size, metrics in sorted(by_size.items()) if size > 0)
    return Calibration(compiler=setting_of(job).compiler, job=job, sizes=sizes)


def value_at(curve: pd.DataFrame | None, metric: str | None, samples: float) -> float:
    """Return a curve's value after `samples` samples, interpolated linearly; NaN outside its points.

    Evaluations take place after whole steps, so their sample counts differ slightly: up to 5 % counts as equal.
    """
    if curve is None or metric is None:
        return math.nan
    points: list[tuple[float, float]] = sorted(
        (float(p), float(v)) for p, v in zip(curve["samples"], curve["value"], strict=True) if math.isfinite(p + v)
    )
    before = [point for point in points if point[0] <= samples]
    after = [point for point in points if samples <= point[0]]
    if not before:
        return after[0][1] if after and after[0][0] <= 1.05 * samples else math.nan
    (x, y), (right, up) = before[-1], (after or before[-1:])[0]
    if right == x:
        return y if x >= samples / 1.05 else math.nan
    return y + (up - y) * (samples - x) / (right - x)


def _size(batch_size: float, metrics: Mapping[str, float]) -> Size:
    def number(name: str) -> float:
        value = metrics.get(name, math.nan)
        return value if math.isfinite(value) and value > 0 else math.nan

    step = number("step_seconds")
    return Size(
        batch_size=batch_size,
        fits=metrics.get("fits", 1.0 if step > 0 else 0.0) > 0,
        step_seconds=step,
        low=number("step_seconds_low"),
        high=number("step_seconds_high"),
        samples_per_second=number("samples_per_second"),
        peak_memory_gib=number("peak_memory_gib"),
    )


def _end(job: Job, spec: SweepSpec, quality: float) -> tuple[Kind, str]:
    end = job.text.get("end") or _end_by_status(job, spec)
    # The study records a job that a person stopped as a failed trial, because it has no value.
    end = "stopped" if end == "failed: Stopped" else end
    first = end.partition(":")[0]
    kind: Kind = next((kind for kind in KINDS if kind == first), "running" if job.unfinished else "failed")
    if kind == "completed" and spec.bound is not None and not _is_as_good(quality, spec.bound, spec):
        return "worse", f"worse than {spec.metric} {spec.bound:g}"
    return kind, end


def _end_by_status(job: Job, spec: SweepSpec) -> str:
    if job.unfinished:
        return "running"
    if job.succeeded:
        missed = spec.target is not None and not job.number("target_reached") > 0
        return "not reached" if missed else "completed"
    return f"failed: {job.text.get('failure_class') or job.status.lower()}"


def _is_as_good(quality: float, bound: float, spec: SweepSpec) -> bool:
    return quality >= bound if spec.higher_is_better else quality <= bound


def _number(job: Job, *columns: str) -> float:
    """Return the first finite number in these columns; tags and parameters are parsed as text."""
    for column in columns:
        try:
            value = float(job.text.get(column) or job.number(column))
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return math.nan
