"""Results of a sweep: the best setting overall and per compiler, the repeats, and the cost of the search. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from judging.design import Design
from judging.intervals import Interval
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
    setting_of,
    trial_of,
    with_second_costs,
)
from sweeps.early_stopping import choose
from tracking.groups.planned_job import CALIBRATION, FINALIST
from tracking.recorded.arms import BILLABLE, DOLLARS, Arm
from tracking.recorded.recorded_job import Job, job_of
from tracking.recorded.waves import repeat_rows

ROLES = ("calibration", "baseline", "trial", FINALIST, "confirmation")


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
    pairs: Mapping[Setting, Contrast] = field(default_factory=dict)
    """Comparison of the winner of the trials with the best setting of each other compiler, by that setting. The winner
    is the arm, unless it is the base. The base is in no pair with another winner."""

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
        """The winner of the trials, unless the repeats show another compiler's best setting to be cheaper."""
        better = 1 if self.winner and self.winner.setting == self.base else -1
        shown = {setting for setting, contrast in self.pairs.items() if self.shown(contrast) == better}
        trials = [each for each in self.best_trials if each.setting in shown]
        return min(trials, key=self.trials.index, default=self.winner)

    def shown(self, contrast: Contrast) -> int:
        """Return 1 if repeats show an arm to be cheaper or faster than its baseline, -1 for the opposite, else 0."""
        ratio, outcome = self.ratio_of(contrast), contrast.verdict.outcome
        if ratio is None or outcome == "not comparable":
            return 0
        if self.spec.is_rate:
            return int(ratio.low > 1) - int(ratio.high < 1)
        return int(outcome == "cheaper") - int(outcome == "not cheaper" and ratio.low > 1)

    @cached_property
    def winner(self) -> Trial | None:
        """The cheapest of the trials; None if no trial has a comparable cost."""
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
            others = spec.base_multiplier, spec.base_scaling, spec.base_hyperparameters
            return Setting(spec.base_compiler, spec.base_batch_size, *others)
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

    @property
    def rules(self) -> int | None:
        """Version of the rules that judge the repeats; None if nothing was compared."""
        return self.confirmation.rules if self.confirmation and self._contrasts else None

    @property
    def _contrasts(self) -> tuple[Contrast, ...]:
        return self.confirmation.contrasts if self.confirmation else ()

    def interval_of(self, setting: Setting) -> Interval | None:
        """Return the ratio of a setting's repeats to the base setting's, in cost or in samples per second."""
        contrast = self.contrast_of(setting)
        return self.ratio_of(contrast) if contrast else None

    def ratio_of(self, contrast: Contrast) -> Interval | None:
        """Return the ratio of an arm's repeats to its baseline's, in cost or in samples per second."""
        return contrast.speed_up if self.spec.is_rate else contrast.verdict.ratio

    def cost_by_role(self) -> list[CostShare]:
        """Return the cost of each role's jobs, then of all jobs."""
        roles = [*ROLES, *sorted({job.text.get("role") or "other" for job in self.jobs} - set(ROLES))]
        jobs = {role: [job for job in self.jobs if (job.text.get("role") or "other") == role] for role in roles}
        return [*(cost_share(role, own) for role, own in jobs.items() if own), cost_share("all", self.jobs)]

    def cost_by_outcome(self) -> list[CostShare]:
        kinds = {kind: [trial.job for trial in self.trials if trial.kind == kind] for kind in KINDS}
        return [cost_share(kind, own) for kind, own in kinds.items() if own]

    def _is_reached(self, job: Job) -> bool:
        return self.spec.target is None or job.number("target_reached") > 0


def is_sweep_table(table: pd.DataFrame) -> bool:
    """Return True for jobs that only a sweep has. Comparisons have calibrations, too."""
    return "role" in table.columns and bool(table["role"].isin(set(ROLES) - {CALIBRATION}).any())


def sweep_of(
    table: pd.DataFrame,
    group: str,
    document: Mapping[str, Any],
    calibrations: Mapping[str, pd.DataFrame],
    design: Design | None = None,
) -> Sweep:
    """Return the sweep with these jobs (`job_tables.jobs`) and this `sweep.json`.

    `calibrations` are `histories` tables with the points of calibrations, by run id.
    With a `design`, the repeats are judged by its looks.
    """
    jobs = tuple(job_of(row) for row in table.to_dict("records"))
    spec = read_spec(document)
    tried, second = (
        [trial_of(job, spec) for job in jobs if job.text.get("role") == role] for role in ("trial", FINALIST)
    )
    trials = ranked(with_second_costs(tried, second), spec)
    repeats = repeat_rows(table)
    sweep = Sweep(
        group=group,
        spec=spec,
        jobs=jobs,
        calibrations=tuple(
            calibration_of(job, calibrations.get(job.run_id)) for job in jobs if job.text.get("role") == "calibration"
        ),
        trials=trials,
        confirmation=compare(repeats, group, design=design) if len(repeats) else None,
    )
    return replace(sweep, pairs=_pairs(sweep, repeats, design))


def _pairs(sweep: Sweep, repeats: pd.DataFrame, design: Design | None) -> Mapping[Setting, Contrast]:
    """Return `Sweep.pairs` by the sweep's repeats."""
    winner = sweep.winner.setting if sweep.winner and not sweep.spec.is_front else sweep.base
    others = [each.setting for each in sweep.best_trials if each.setting not in (winner, sweep.base)]
    if winner == sweep.base:
        return {other: contrast for other in others if (contrast := sweep.contrast_of(other))}
    settings = [setting_of(job_of(row)) for row in repeats.to_dict("records")]
    pairs = {}
    for other in others:
        marked = repeats.assign(baseline=["true" if each == other else "false" for each in settings])
        both = marked[[each in (winner, other) for each in settings]]
        pairs[other] = compare(both, sweep.group, design=design and replace(design, families=len(others))).contrasts
    return {other: contrasts[0] for other, contrasts in pairs.items() if contrasts}


def cost_share(what: str, jobs: Sequence[Job]) -> CostShare:
    """Return the cost of these jobs; costs that are not finite do not count."""
    seconds = math.fsum(value for job in jobs if 0 < (value := job.number(BILLABLE)) < math.inf)
    usd = [value for job in jobs if 0 <= (value := job.number(DOLLARS.column)) < math.inf]
    return CostShare(what=what, jobs=len(jobs), seconds=seconds, usd=math.fsum(usd) if usd else math.nan)


def factorial_settings(sweep: Sweep) -> list[Setting]:
    """Return the repeated settings of two compilers at the base and the best point; empty for fewer than three.

    The two compilers are the base compiler and the best setting's. If these are the same, the second one is the next
    compiler that was repeated.
    """
    best, base = sweep.best, sweep.base
    if best is None or sweep.confirmation is None or best.setting.point == base.point:
        return []
    settings = [setting_of(arm.jobs[0]) for arm in sweep.confirmation.arms]
    by_cell = {(setting.compiler, setting.point): setting for setting in settings}
    names = [base.compiler, best.setting.compiler, *(setting.compiler for setting in settings)]
    compilers = list(dict.fromkeys(names))[:2]
    cells = [(compiler, point) for compiler in compilers for point in (base.point, best.setting.point)]
    repeated = [by_cell[cell] for cell in cells if cell in by_cell]
    return repeated if len(repeated) >= 3 else []
