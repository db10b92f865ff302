"""A sweep: the best setting of each compiler and of all, how sure that is, and what the answer cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from judging.intervals import Interval, ratio_interval
from judging.summaries import geometric_mean
from reports.comparison.arms import Arm, Job, job_of
from reports.comparison.comparison import Comparison, Contrast, compare
from reports.comparison.equal_work import DOLLARS, PAID
from reports.sweep.sweep_spec import Asked, asked_of
from reports.sweep.trials import (
    COST_COLUMNS,
    KINDS,
    Calibration,
    Setting,
    Trial,
    calibration_of,
    front,
    ranked,
    rounded,
    setting_of,
    trial_of,
    value_at,
)

ROLES = ("calibration", "baseline", "trial", "confirmation")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What some of a sweep's jobs took."""

    what: str
    jobs: int
    seconds: float
    """Billable instance seconds."""
    usd: float
    """NaN where no price is known."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Everything that the report of a sweep says."""

    group: str
    asked: Asked
    jobs: tuple[Job, ...]
    """As they were started."""
    calibrations: tuple[Calibration, ...]
    trials: tuple[Trial, ...]
    """Ranked: those with a value first, the best of them at the top."""
    confirmation: Comparison | None
    """Of the arms that were repeated; None without any."""
    common_samples: float
    """Samples that all trials which came to their end have seen."""
    at_common_samples: Mapping[str, float] = field(default_factory=dict)
    """Quality after so many samples, by run."""

    @cached_property
    def compilers(self) -> tuple[str, ...]:
        """All compilers, the base one first."""
        told = [*self.asked.compilers, *(c.compiler for c in self.calibrations)]
        base = [self.asked.base_compiler] if self.asked.base_compiler else []
        return tuple(dict.fromkeys([*base, *told, *(trial.setting.compiler for trial in self.trials)]))

    @property
    def column(self) -> str:
        """The objective's cost as a column of the table of jobs."""
        return COST_COLUMNS.get(self.asked.cost, PAID)

    @cached_property
    def best(self) -> Trial | None:
        """The best trial of all."""
        return next((trial for trial in self.trials if trial.has_value), None)

    @property
    def train_command(self) -> str | None:
        """What trains the best setting; None where there is none."""
        return self.asked.train_command if self.best else None

    @property
    def front(self) -> tuple[Trial, ...]:
        """The trials that no other beats in cost and quality, the cheapest first."""
        return front(self.trials, self.asked)

    @property
    def base(self) -> Setting:
        """The setting that the others are held against: the experiment's own."""
        asked = self.asked
        if asked.base_compiler:
            return Setting(asked.base_compiler, asked.base_batch_size, rounded(asked.base_multiplier))
        jobs = self.of_role("baseline") or [job for job in self.of_role("confirmation") if job.is_baseline]
        return setting_of(jobs[0]) if jobs else Setting(self.compilers[0] if self.compilers else "none", math.nan)

    @property
    def base_cost(self) -> float:
        """The base setting's cost, from its repeats, its own job or its trial; NaN where it never came to its end."""
        if math.isfinite(repeated := self.repeated_cost(self.base)):
            return repeated
        own = [job for job in self.of_role("baseline") if job.succeeded and self._is_reached(job)]
        tried = [trial.cost for trial in self.trials if trial.has_value and trial.setting == self.base]
        values = [job.number(self.column) for job in own] or tried
        told = [value for value in values if value > 0]
        return geometric_mean(told) if told else math.nan

    @property
    def best_trials(self) -> tuple[Trial, ...]:
        """Each compiler's best trial; of two objectives, those that no other beats in both."""
        if self.asked.is_front:
            return self.front
        return tuple(trial for name in self.compilers if (trial := self.best_of(name)))

    @property
    def other_jobs(self) -> tuple[Job, ...]:
        """The jobs that are no trials."""
        return tuple(job for job in self.jobs if job.text.get("role") != "trial")

    def repeated_cost(self, setting: Setting) -> float:
        """Return the geometric mean of a setting's repeats; NaN without any, or where one missed the target."""
        arm = self.arm_of(setting)
        told = arm.positive(self.column) if arm and all(map(self._is_reached, arm.headline)) else []
        return geometric_mean(told) if told else math.nan

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The trials that failed."""
        return tuple(trial for trial in self.trials if trial.kind == "failed")

    def cost_of(self, trial: Trial) -> float:
        """Return the cost of a trial's setting: that of its repeats, else its own."""
        repeated = self.repeated_cost(trial.setting)
        return repeated if math.isfinite(repeated) else trial.cost

    def best_of(self, compiler: str) -> Trial | None:
        """Return the best trial of a compiler."""
        return next((trial for trial in self.trials if trial.has_value and trial.setting.compiler == compiler), None)

    def of_role(self, role: str) -> list[Job]:
        """Return the jobs of a role."""
        return [job for job in self.jobs if job.text.get("role") == role]

    def arm_of(self, setting: Setting) -> Arm | None:
        """Return the repeats of a setting."""
        arms = self.confirmation.arms if self.confirmation else ()
        return next((arm for arm in arms if setting_of(arm.jobs[0]) == setting), None)

    def missed(self, arm: Arm) -> int:
        """Return how many of a setting's repeats ended before they reached the target."""
        return sum(not self._is_reached(job) for job in arm.headline)

    def contrast_of(self, setting: Setting) -> Contrast | None:
        """Return how a setting's repeats compare with the baseline's."""
        contrasts = self.confirmation.contrasts if self.confirmation else ()
        return next((each for each in contrasts if setting_of(each.arm.jobs[0]) == setting), None)

    def ratio(self, arm: Arm, base: Arm | None) -> Interval | None:
        """Return the cost of an arm's repeats over another's; None where either did not always reach the target."""
        if base is None or arm is base or not all(self._is_reached(job) for job in (*arm.headline, *base.headline)):
            return None
        return ratio_interval(arm.positive(self.column), base.positive(self.column))

    def spent(self) -> list[Spent]:
        """Return what the jobs of each role took, and then all."""
        roles = [*ROLES, *sorted({job.text.get("role") or "other" for job in self.jobs} - set(ROLES))]
        jobs = {role: [job for job in self.jobs if (job.text.get("role") or "other") == role] for role in roles}
        return [*(_spent(role, told) for role, told in jobs.items() if told), _spent("all", self.jobs)]

    def spent_on_trials(self) -> list[Spent]:
        """Return what the trials took by how they ended."""
        kinds = {kind: [trial.job for trial in self.trials if trial.kind == kind] for kind in KINDS}
        return [_spent(kind, told) for kind, told in kinds.items() if told]

    def bills(self) -> list[Spent]:
        """Return what the jobs of each role took, the trials' by how they ended below them, and then all."""
        told = [[each, *(self.spent_on_trials() if each.what == "trial" else [])] for each in self.spent()]
        return [each for group in told for each in group]

    @property
    def search_seconds(self) -> float:
        """Billable instance seconds of all but the repeats, which any search would have to make."""
        return _spent("", [job for job in self.jobs if job.text.get("role") != "confirmation"]).seconds

    def _is_reached(self, job: Job) -> bool:
        return self.asked.target is None or job.number("target_reached") > 0


def is_of_sweep(table: pd.DataFrame) -> bool:
    """Tell whether the jobs of `query.jobs`' table are a sweep's."""
    return "role" in table.columns and bool(table["role"].isin(ROLES).any())


def sweep_of(
    table: pd.DataFrame,
    group: str,
    told: Mapping[str, Any],
    calibrations: Mapping[str, pd.DataFrame],
    curves: Mapping[str, pd.DataFrame],
) -> Sweep:
    """Return a sweep of its jobs (`query.jobs`), its `sweep.json`, and by run id its `histories`: the points of
    calibrations, and the curves of the trials' quality."""
    jobs = tuple(job_of(row) for row in table.to_dict("records"))
    asked = asked_of(told) if told.get("objective") else _with_target(asked_of(told), jobs)
    repeated = table[table["role"] == "confirmation"] if "role" in table.columns else table[:0]
    trials = ranked([trial_of(job, asked) for job in jobs if job.text.get("role") == "trial"], asked)
    common = _common_samples(trials)
    qualities = {t.job.run_id: value_at(curves.get(t.job.run_id), asked.metric, common) for t in trials}
    return Sweep(
        group=group,
        asked=asked,
        jobs=jobs,
        calibrations=tuple(
            calibration_of(job, calibrations.get(job.run_id)) for job in jobs if job.text.get("role") == "calibration"
        ),
        trials=trials,
        confirmation=compare(repeated, group) if len(repeated) else None,
        common_samples=common,
        at_common_samples={run: value for run, value in qualities.items() if math.isfinite(value)},
    )


def _with_target(asked: Asked, jobs: Sequence[Job]) -> Asked:
    """Return what was asked with the target that the jobs were given: for where no `sweep.json` tells an objective."""
    text = next((job.text for job in jobs if "hp_target_metric" in job.text), {})
    if not text or (text.get("hp_target_stop") or "").lower() != "true":
        return asked
    higher = text.get("hp_target_direction") == "max"
    value = _number(text.get("hp_target_value"))
    return replace(asked, metric=text["hp_target_metric"], target=value, higher_is_better=higher)


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _common_samples(trials: Sequence[Trial]) -> float:
    told = [trial.job.number("samples") for trial in trials if trial.kind in ("completed", "worse", "not reached")]
    return min((samples for samples in told if samples > 0), default=math.nan)


def _spent(what: str, jobs: Sequence[Job]) -> Spent:
    seconds = math.fsum(value for job in jobs if 0 < (value := job.number(PAID)) < math.inf)
    usd = [value for job in jobs if 0 <= (value := job.number(DOLLARS.column)) < math.inf]
    return Spent(what=what, jobs=len(jobs), seconds=seconds, usd=math.fsum(usd) if usd else math.nan)
