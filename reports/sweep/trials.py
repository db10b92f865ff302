"""A sweep's specification, read from `sweep.json`, and its trials and calibrations, made from its jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import pandas as pd

from reports.model.numbers import figure, money, short
from sweeps.costs import Measurement, measurements
from sweeps.search_space import Point
from tracking.recorded.arms import BILLABLE, DOLLARS, NOT_OF_THE_SETTING
from tracking.recorded.recorded_job import STEADY, Job
from training.contract.failures import Failure

Kind = Literal["completed", "worse", "not reached", "pruned", "failed", "stopped", "running"]
"""Outcome of a trial. A trial that is `worse` completed, but its quality is beyond the bound."""
KINDS: tuple[Kind, ...] = get_args(Kind)
COST_COLUMNS = {"billable_seconds": BILLABLE, "usd": DOLLARS.column, "steady_samples_per_second": STEADY}
_NOUNS = {"billable_seconds": "billable seconds", "usd": "dollars", "steady_samples_per_second": "samples/s"}
_UNITS = {"billable_seconds": "s", "usd": "USD", "steady_samples_per_second": "samples/s"}


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """Objective and search space of a sweep; unknown values are NaN, None or empty."""

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
    compilers: tuple[str, ...] = ()
    base_compiler: str | None = None
    base_batch_size: float = math.nan
    base_multiplier: float = 1.0
    base_scaling: str = ""
    base_hyperparameters: str = ""
    stopped_because: Mapping[str, str] = field(default_factory=dict)
    """Reason why the search ended, by compiler."""
    train_command: str | None = None
    """Command that trains the winner."""

    @property
    def noun(self) -> str:
        return _NOUNS[self.cost]

    @property
    def unit(self) -> str:
        return _UNITS[self.cost]

    @property
    def cost_name(self) -> str:
        """Label of the objective's cost with its target, such as `billable seconds to eval_loss 0.45`."""
        return self.noun if self.target is None else f"{self.noun} to {self.quality_name} {self.target:g}"

    @property
    def quality_name(self) -> str:
        """Metric of the quality, or `quality` if unknown."""
        return self.metric or "quality"

    def cost_text(self, cost: float) -> str:
        return money(cost) if self.cost == "usd" else figure(cost)

    @property
    def is_rate(self) -> bool:
        """True if the objective is a rate (samples per second), where more is better."""
        return self.cost == "steady_samples_per_second"


def read_spec(document: Mapping[str, Any]) -> SweepSpec:
    """Return the specification in a `sweep.json`, of which any part may be missing, and any number null."""
    objective, base, stopped_because = (document.get(name) or {} for name in ("objective", "base", "stopped_because"))
    return SweepSpec(
        cost=objective.get("cost") or "billable_seconds",
        metric=objective.get("metric"),
        higher_is_better=bool(objective.get("higher_is_better")),
        target=objective.get("target"),
        bound=objective.get("bound"),
        is_front=bool(objective.get("is_front")),
        compilers=tuple(document.get("compilers") or ()),
        base_compiler=base.get("compiler"),
        base_batch_size=float(base.get("batch_size") or math.nan),
        base_multiplier=base.get("multiplier") or 1.0,
        base_scaling=base.get("scaling") or "",
        base_hyperparameters=base.get("hyperparameters") or "",
        stopped_because={name: reason for name, reason in stopped_because.items() if reason},
        train_command=document.get("train_command"),
    )


@dataclass(frozen=True)
class Setting:
    compiler: str
    batch_size: float
    """Samples per device; NaN if the job did not record it."""
    multiplier: float = 1.0
    """Factor applied to the learning rate from the scaling rule."""
    scaling: str = ""
    """Scaling rule of the learning rate; "" for the experiment's."""
    hyperparameters: str = ""
    """Searched hyperparameters of a script, as a JSON object."""

    @property
    def rate(self) -> tuple[float, str]:
        return self.multiplier, self.scaling

    @property
    def point(self) -> Point | None:
        """Setting without the compiler; None if the job did not record it."""
        if not self.batch_size > 0:
            return None
        return Point(int(self.batch_size), self.multiplier, self.scaling, self.hyperparameters)

    def __str__(self) -> str:
        return f"{self.compiler} at {self.point.label}" if self.point else self.compiler


@dataclass(frozen=True, kw_only=True)
class Trial:
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
        if self.second_cost is None or not math.isfinite(self.second_cost):
            return self.cost
        return math.sqrt(self.cost * self.second_cost)

    @property
    def failure(self) -> str:
        """Reason for a failure: the last line of the failure message. Empty for other outcomes."""
        message = self.job.text.get("failure_message") or "" if self.kind == "failed" else ""
        return short(Failure("", message).text, 160)

    @property
    def is_comparable(self) -> bool:
        """True if the trial completed with a known cost, even if its quality is beyond the bound."""
        return self.kind in ("completed", "worse") and math.isfinite(self.cost)

    @property
    def has_value(self) -> bool:
        """True if the trial can be the best one: it completed with the required quality and a known cost."""
        return self.kind == "completed" and math.isfinite(self.cost)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Measurements of one compiler's calibration."""

    compiler: str
    job: Job
    sizes: tuple[Measurement, ...]
    """Ordered by batch size."""

    @property
    def largest(self) -> float:
        """Largest batch size that fits; NaN if no size fits."""
        return max((size.batch_size for size in self.sizes if size.fits), default=math.nan)

    @property
    def too_large(self) -> tuple[float, ...]:
        return tuple(size.batch_size for size in self.sizes if not size.fits)


def setting_of(job: Job) -> Setting:
    factor = _number(job, "multiplier", "hp_learning_rate_multiplier")
    size = _number(job, "batch_size", "hp_batch_size")
    compiler = job.text.get("compiler_setting") or job.text.get("compiler") or "none"
    others = (job.text.get(name) or "" for name in ("scaling", "hyperparameters"))
    return Setting(compiler, size, factor if factor > 0 else 1.0, *others)


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
        cost = sign * trial.mean_cost if trial.is_comparable else math.inf
        number = trial.number if math.isfinite(trial.number) else math.inf
        return not trial.has_value, KINDS.index(trial.kind), cost, number

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
    ended = [trial for trial in trials if trial.is_comparable and math.isfinite(trial.quality)]
    unbeaten: list[Trial] = []
    for trial in sorted(ended, key=lambda t: (sign * t.cost, better * t.quality)):
        if not unbeaten or better * trial.quality < better * unbeaten[-1].quality:
            unbeaten.append(trial)
    return tuple(unbeaten)


def calibration_of(job: Job, points: pd.DataFrame | None) -> Calibration:
    """Return a job's calibration; `points` is its `histories` table of `sweeps.costs.FIGURES`."""
    rows = () if points is None else zip(points["step"], points["key"], points["value"], strict=True)
    return Calibration(compiler=setting_of(job).compiler, job=job, sizes=measurements(rows))


def _end(job: Job, spec: SweepSpec, quality: float) -> tuple[Kind, str]:
    end = job.text.get("end") or _end_by_status(job, spec)
    # The study records a job that a person stopped as a failed trial, because it has no value.
    end = "stopped" if end == "failed: Stopped" else end
    first = end.partition(":")[0]
    kind: Kind = next((kind for kind in KINDS if kind == first), "running" if job.unfinished else "failed")
    if kind == "completed" and spec.bound is not None:
        is_as_good = quality >= spec.bound if spec.higher_is_better else quality <= spec.bound
        return (kind, end) if is_as_good else ("worse", f"worse than {spec.metric} {spec.bound:g}")
    return kind, end


def _end_by_status(job: Job, spec: SweepSpec) -> str:
    if job.unfinished:
        return "running"
    if job.succeeded:
        missed = spec.target is not None and not job.number("target_reached") > 0
        return "not reached" if missed else "completed"
    return f"failed: {job.text.get('failure_class') or job.status.lower()}"


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
