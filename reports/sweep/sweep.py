"""Results of a sweep: the best setting overall and per compiler, the repeats, and the cost of the search. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

import pandas as pd

from judging.design import Design
from judging.intervals import LEAST_SPREAD, Interval, ratio_interval
from judging.summaries import geometric_mean, typical
from reports.comparison.comparison import Comparison, Contrast, compare
from reports.sweep.trials import (
    COST_COLUMNS,
    KINDS,
    Calibration,
    Setting,
    SweepSpec,
    Trial,
    calibration_of,
    front,
    ranked,
    read_spec,
    rounded,
    setting_of,
    trial_of,
    value_at,
    with_second_costs,
)
from sweeps.costs import device_count
from sweeps.early_stopping import choose
from tracking.groups.planned_job import FINALIST
from tracking.recorded.arms import BILLABLE, DOLLARS, Arm
from tracking.recorded.recorded_job import Job, job_of
from tracking.recorded.waves import repeat_rows

ROLES = ("calibration", "baseline", "trial", FINALIST, "confirmation")
_ENDED = ("completed", "worse", "not reached")


@dataclass(frozen=True, kw_only=True)
class CostShare:
    what: str
    """Role of the jobs, or outcome of the trials."""
    jobs: int
    seconds: float
    """Billable instance seconds."""
    usd: float
    """NaN if no price is known."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Jobs of a sweep, grouped by role."""

    group: str
    spec: SweepSpec
    jobs: tuple[Job, ...]
    """In the order in which they started."""
    calibrations: tuple[Calibration, ...]
    trials: tuple[Trial, ...]
    """Ranked: trials with a comparable cost first, the best at the top."""
    confirmation: Comparison | None
    """Comparison of the repeated settings; None if no setting was repeated."""
    common_samples: float
    """Number of samples that every trial which trained to the end has seen."""
    at_common_samples: Mapping[str, float] = field(default_factory=dict)
    """Quality after `common_samples`, by run id."""

    @cached_property
    def compilers(self) -> tuple[str, ...]:
        """All compilers, the base compiler first."""
        others = [*self.spec.compilers, *(c.compiler for c in self.calibrations)]
        base = [self.spec.base_compiler] if self.spec.base_compiler else []
        return tuple(dict.fromkeys([*base, *others, *(trial.setting.compiler for trial in self.trials)]))

    @property
    def column(self) -> str:
        """Column of the objective's cost in the table of jobs."""
        return COST_COLUMNS.get(self.spec.cost, BILLABLE)

    @cached_property
    def best(self) -> Trial | None:
        """The trial of the best setting; None if no trial has a comparable cost."""
        sign = -1 if self.spec.is_rate else 1
        best = [trial for name in self.compilers if (trial := self.best_of(name))]
        return min(best, key=lambda trial: (sign * trial.mean_cost, self.trials.index(trial)), default=None)

    @property
    def train_command(self) -> str | None:
        return self.spec.train_command if self.best else None

    @property
    def front(self) -> tuple[Trial, ...]:
        """The Pareto-optimal trials in cost and quality, the cheapest first."""
        return front(self.trials, self.spec)

    @property
    def base(self) -> Setting:
        """The experiment's own setting, with which the others are compared."""
        spec = self.spec
        if spec.base_compiler:
            return Setting(spec.base_compiler, spec.base_batch_size, rounded(spec.base_multiplier))
        jobs = self.of_role("baseline") or [job for job in self.of_role("confirmation") if job.is_baseline]
        return setting_of(jobs[0]) if jobs else Setting(self.compilers[0] if self.compilers else "none", math.nan)

    @property
    def base_cost(self) -> float:
        """Cost of the base setting in its repeats, else in its baseline job, else in its trial; NaN if unknown."""
        if math.isfinite(repeated := self.repeated_cost(self.base)):
            return repeated
        own = [job for job in self.of_role("baseline") if job.succeeded and self._is_reached(job)]
        tried = [trial.cost for trial in self.trials if trial.has_value and trial.setting == self.base]
        values = [job.compared(self.column) for job in own] or tried
        positive = [value for value in values if value > 0]
        return typical(positive) if positive else math.nan

    @property
    def best_trials(self) -> tuple[Trial, ...]:
        """Best trial of each compiler; with two objectives, the Pareto-optimal trials."""
        if self.spec.is_front:
            return self.front
        return tuple(trial for name in self.compilers if (trial := self.best_of(name)))

    @property
    def saving(self) -> float:
        """Cost that the best setting saves: the base's repeats minus its own; NaN unless both were repeated."""
        return self.repeated_cost(self.base) - self.repeated_cost(self.best.setting) if self.best else math.nan

    def repeated_cost(self, setting: Setting) -> float:
        """Return the `shown_cost` of a setting's repeats; NaN without repeats, or if one missed the target."""
        arm = self.arm_of(setting)
        return math.nan if arm is None or self.missed(arm) else self.shown_cost(arm)

    def shown_cost(self, arm: Arm) -> float:
        """Return the typical cost of a usable model, by which verdicts compare repeats; NaN if it is unknown.

        For a rate, return the geometric mean of the repeats.
        """
        if self.spec.is_rate:
            rates = arm.positive(self.column)
            return geometric_mean(rates) if rates else math.nan
        cost = self.confirmation.typical(arm, self.column) if self.confirmation else None
        return math.nan if cost is None else cost

    def cost_of(self, trial: Trial) -> float:
        """Return the cost of a trial's setting in its repeats, else in its one or two trainings."""
        repeated = self.repeated_cost(trial.setting)
        return repeated if math.isfinite(repeated) else trial.mean_cost

    def best_of(self, compiler: str) -> Trial | None:
        """Return the trial of a compiler's best setting: by both trainings of the finalists, else by the trials."""
        own = {each.setting: each for each in self.trials if each.has_value and each.setting.compiler == compiler}
        chosen = choose(
            {key: (each.cost, each.second_cost) for key, each in own.items() if each.second_cost is not None}
        )
        return own[chosen] if chosen else next(iter(own.values()), None)

    def of_role(self, role: str) -> list[Job]:
        return [job for job in self.jobs if job.text.get("role") == role]

    def arm_of(self, setting: Setting) -> Arm | None:
        """Return the arm with the repeats of a setting, or None if it was not repeated."""
        arms = self.confirmation.arms if self.confirmation else ()
        return next((arm for arm in arms if setting_of(arm.jobs[0]) == setting), None)

    def missed(self, arm: Arm) -> int:
        """Return the number of a setting's repeats that ended before they reached the target."""
        return sum(not self._is_reached(job) for job in arm.succeeded)

    def contrast_of(self, setting: Setting) -> Contrast | None:
        """Return the comparison of a setting's repeats with the baseline's repeats."""
        return next((each for each in self._contrasts if setting_of(each.arm.jobs[0]) == setting), None)

    def ratio(self, arm: Arm, base: Arm | None) -> Interval | None:
        """Return the cost of an arm's repeats divided by the cost of `base`; None if any repeat missed the target."""
        if base is None or arm is base or self.missed(arm) or self.missed(base):
            return None
        contrast = next((each for each in self._contrasts if each.arm is arm), None)
        has_looks = self.confirmation is not None and self.confirmation.progress is not None
        if contrast and (self.spec.is_rate or has_looks):
            return contrast.speed_up if self.spec.is_rate else contrast.verdict.ratio
        return ratio_interval(arm.positive(self.column), base.positive(self.column), least_spread=LEAST_SPREAD)

    @property
    def rules(self) -> int | None:
        """Version of the rules that judge the repeats; None if nothing was compared."""
        return self.confirmation.rules if self.confirmation and self._contrasts else None

    @property
    def _contrasts(self) -> tuple[Contrast, ...]:
        return self.confirmation.contrasts if self.confirmation else ()

    def interval_of(self, trial: Trial) -> Interval | None:
        """Return the ratio of the trial's repeats to the base setting's repeats, in cost or in samples per second."""
        contrast = self.contrast_of(trial.setting)
        if contrast is None:
            return None
        return contrast.speed_up if self.spec.is_rate else contrast.verdict.ratio

    def cost_by_role(self) -> list[CostShare]:
        """Return the cost of each role's jobs, then of all jobs."""
        roles = [*ROLES, *sorted({job.text.get("role") or "other" for job in self.jobs} - set(ROLES))]
        jobs = {role: [job for job in self.jobs if (job.text.get("role") or "other") == role] for role in roles}
        return [*(cost_share(role, own) for role, own in jobs.items() if own), cost_share("all", self.jobs)]

    def cost_by_outcome(self) -> list[CostShare]:
        kinds = {kind: [trial.job for trial in self.trials if trial.kind == kind] for kind in KINDS}
        return [cost_share(kind, own) for kind, own in kinds.items() if own]

    @property
    def search_seconds(self) -> float:
        """Billable instance seconds of all jobs except the repeats, which any search method needs."""
        return cost_share("", [job for job in self.jobs if job.text.get("role") != "confirmation"]).seconds

    def _is_reached(self, job: Job) -> bool:
        return self.spec.target is None or job.number("target_reached") > 0


def is_sweep_table(table: pd.DataFrame) -> bool:
    return "role" in table.columns and bool(table["role"].isin(ROLES).any())


def sweep_of(
    table: pd.DataFrame,
    group: str,
    document: Mapping[str, Any],
    calibrations: Mapping[str, pd.DataFrame],
    curves: Mapping[str, pd.DataFrame],
    design: Design | None = None,
) -> Sweep:
    """Return the sweep with these jobs (`job_tables.jobs`) and this `sweep.json`.

    `calibrations` and `curves` are `histories` tables by run id: the points of calibrations, and the quality of trials.
    With a `design`, the repeats are judged by its looks.
    """
    jobs = tuple(job_of(row) for row in table.to_dict("records"))
    spec = read_spec(document) if document.get("objective") else _with_target(read_spec(document), jobs)
    tried, second = (
        [trial_of(job, spec) for job in jobs if job.text.get("role") == role] for role in ("trial", FINALIST)
    )
    trials = ranked(with_second_costs(tried, second), spec)
    counts = [trial.job.number("samples") for trial in trials if trial.kind in _ENDED]
    common = min((samples for samples in counts if samples > 0), default=math.nan)
    qualities = {t.job.run_id: value_at(curves.get(t.job.run_id), spec.metric, common) for t in trials}
    repeats = repeat_rows(table)
    return Sweep(
        group=group,
        spec=spec,
        jobs=jobs,
        calibrations=tuple(
            calibration_of(job, calibrations.get(job.run_id)) for job in jobs if job.text.get("role") == "calibration"
        ),
        trials=trials,
        confirmation=compare(repeats, group, design=design) if len(repeats) else None,
        common_samples=common,
        at_common_samples={run: value for run, value in qualities.items() if math.isfinite(value)},
    )


def _with_target(spec: SweepSpec, jobs: Sequence[Job]) -> SweepSpec:
    """Return the specification with the target in the jobs' parameters, for a `sweep.json` without an objective."""
    text = next((job.text for job in jobs if "hp_target_metric" in job.text), {})
    if not text or (text.get("hp_target_stop") or "").lower() != "true":
        return spec
    higher = text.get("hp_target_direction") == "max"
    target = float(text.get("hp_target_value") or math.nan)
    return replace(spec, metric=text["hp_target_metric"], target=target, higher_is_better=higher)


def cost_share(what: str, jobs: Sequence[Job]) -> CostShare:
    """Return the cost of these jobs; costs that are not finite do not count."""
    seconds = math.fsum(value for job in jobs if 0 < (value := job.number(BILLABLE)) < math.inf)
    usd = [value for job in jobs if 0 <= (value := job.number(DOLLARS.column)) < math.inf]
    return CostShare(what=what, jobs=len(jobs), seconds=seconds, usd=math.fsum(usd) if usd else math.nan)


@dataclass(frozen=True, kw_only=True)
class FactorialCell:
    arm: Arm
    setting: Setting
    ratio: Interval | None
    """Cost divided by the base setting's cost; None for the base setting and with fewer than two repeats."""


def factorial_cells(sweep: Sweep) -> tuple[FactorialCell, ...]:
    """Return the cells, starting with the base compiler and base batch; empty if fewer than three were repeated.

    The two compilers are the base compiler and the best setting's. If these are the same, the second one is the next
    compiler that was repeated.
    """
    best, base = sweep.best, sweep.base
    if best is None or sweep.confirmation is None or best.setting.point == base.point:
        return ()
    arms = {setting_of(arm.jobs[0]): arm for arm in sweep.confirmation.arms}
    compilers = list(dict.fromkeys([base.compiler, best.setting.compiler, *(setting.compiler for setting in arms)]))[:2]
    points = (base.point, best.setting.point)
    repeated = {s: arm for s, arm in arms.items() if s.compiler in compilers and s.point in points}
    if len(repeated) < 3:
        return ()
    cells = [FactorialCell(arm=arm, setting=s, ratio=sweep.ratio(arm, arms.get(base))) for s, arm in repeated.items()]
    return tuple(
        sorted(cells, key=lambda cell: (cell.setting.compiler != base.compiler, cell.setting.point != base.point))
    )


@dataclass(frozen=True, kw_only=True)
class Grid:
    settings: int
    """Settings that fit in memory."""
    trained: int
    """Settings that were trained to the end, whose cost is known."""
    seconds: float
    """Billable instance seconds."""


def grid_of(sweep: Sweep) -> Grid | None:
    """Return the cost of the grid: known costs, and predictions for settings that were not trained to the end.

    A prediction is the fitted time per sample times the number of samples, plus the trials' median overhead. With a
    target that ends the training, the number of samples is the median over the trials with the same compiler and batch
    size, or else over all trials. Without a target, it is the number of samples in the whole training. Returns None if
    a compiler's step times are unknown.
    """
    spec = sweep.spec
    factors = [rounded(multiplier) for multiplier in spec.multipliers]
    settings = [Setting(c, size, m) for c in spec.compilers for size in spec.batch_sizes for m in factors]
    settings = [setting for setting in settings if _fits(sweep, setting)]
    known = {trial.setting: trial.job.number(BILLABLE) for trial in sweep.trials if trial.kind in _ENDED}
    costs = {setting: known.get(setting, math.nan) for setting in settings}
    seconds = [cost if cost > 0 else _predicted(sweep, setting) for setting, cost in costs.items()]
    if not seconds or not all(map(math.isfinite, seconds)):
        return None
    return Grid(settings=len(settings), trained=sum(cost > 0 for cost in costs.values()), seconds=math.fsum(seconds))


def seconds_per_sample(sweep: Sweep, setting: Setting) -> float:
    """Return the steady seconds per sample that the compiler's cost model predicts; NaN without a model."""
    model = sweep.spec.models.get(setting.compiler)
    if model is None or not setting.batch_size > 0:
        return math.nan
    sizes = [size for each in sweep.calibrations if each.compiler == setting.compiler for size in each.sizes]
    return model.step_seconds(setting.batch_size) / (setting.batch_size * device_count(sizes))


def _fits(sweep: Sweep, setting: Setting) -> bool:
    too_large = [size for c in sweep.calibrations if c.compiler == setting.compiler for size in c.too_large]
    too_large += [
        t.setting.batch_size
        for t in sweep.trials
        if t.setting.compiler == setting.compiler and t.job.text.get("failure_class") == "OutOfMemory"
    ]
    return not any(setting.batch_size >= size for size in too_large)


def _predicted(sweep: Sweep, setting: Setting) -> float:
    ended = [trial for trial in sweep.trials if trial.kind in _ENDED]
    similar = [t for t in ended if (t.setting.compiler, t.setting.batch_size) == (setting.compiler, setting.batch_size)]
    samples = [t.job.number("samples") for t in similar or ended if t.job.number("samples") > 0]
    if sweep.spec.target is None or not samples:
        samples = [sweep.spec.samples]
    instances, overheads = [1.0], list[float]()
    for trial in ended:
        total, seconds = (trial.job.number(column) for column in (BILLABLE, "cost_billable_seconds"))
        if total > 0 and seconds > 0:
            instances.append(total / seconds)
            steps = trial.job.number("samples") * seconds_per_sample(sweep, trial.setting)
            overheads.append(total - total / seconds * steps)
    known = [value for value in overheads if math.isfinite(value)]
    steps = median(samples) * seconds_per_sample(sweep, setting) * max(instances)
    return steps + (max(0.0, median(known)) if known else 0.0)
