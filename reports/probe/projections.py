"""Projected time and cost of each arm's whole training, from a group of probes. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

import pandas as pd

from judging.next_job import JobSpread, are_separated, job_spread, next_job_error
from reports.comparison.arms import Arm, Job, arms_of, job_of, setting_of
from reports.model.numbers import figure, money
from reports.probe.spot import Discount, SpotEstimate, estimate_of_probe

SECONDS = "projected_billable_seconds"
INSTANCE_SECONDS = "projected_billable_instance_seconds"
USD = "projected_usd"
LOSS_TOLERANCE = 0.02
"""A loss that exceeds the lowest one by more than this share is reported; verdicts use the same tolerance."""
Machine: TypeAlias = tuple[str | None, str | None, str | None]
"""Model, instance type and device. Jobs that agree in them are similar."""


@dataclass(frozen=True)
class Range:
    """A projected number with its 95 % interval."""

    estimate: float
    low: float
    high: float

    @property
    def relative_error(self) -> float:
        """Half the interval's width divided by the estimate."""
        return (self.high - self.low) / 2 / self.estimate if self.estimate > 0 else math.inf

    def of_the_next_job(self, spread: JobSpread) -> Range:
        """Return the interval of the next job, from an interval that covers only the steps of one job."""
        if self.estimate <= 0:
            return self
        half_width = self.estimate * next_job_error(self.relative_error, spread)
        return Range(self.estimate, max(0.0, self.estimate - half_width), self.estimate + half_width)


@dataclass(frozen=True)
class Projected:
    arm: Arm
    job: Job
    seconds: Range
    """Billable seconds of the next job that trains as long."""
    cost: Range
    """Its cost: US dollars if every arm has a price; billable instance seconds if all use one instance type; otherwise
    billable seconds."""
    step_error: float
    """Relative half-width of the 95 % interval of the seconds from the steps of this job alone."""
    spread: JobSpread
    """Spread between jobs of one setting."""
    loss: float
    """Mean training loss over the second half of the samples that all arms have seen; NaN if no loss was logged."""
    spot: SpotEstimate | None
    """The training on spot capacity; None on this machine, and if it is not known."""

    def is_separated_from(self, other: Projected) -> bool:
        """Return True if the two arms are shown to cost differently."""
        costs, errors = (self.cost.estimate, other.cost.estimate), (self.step_error, other.step_error)
        return are_separated(costs, errors, (self.spread, other.spread))

    def is_faster_or_slower_than(self, other: Projected) -> bool:
        """Return True if the two arms are shown to take different times."""
        seconds, errors = (self.seconds.estimate, other.seconds.estimate), (self.step_error, other.step_error)
        return are_separated(seconds, errors, (self.spread, other.spread))

    @property
    def is_uncertain(self) -> bool:
        """True if the probe ended before its interval was as narrow as requested."""
        return self.step_error > float(self.job.text.get("hp_probe_precision") or math.inf)


@dataclass(frozen=True)
class Probes:
    group: str
    projected: tuple[Projected, ...]
    """Cheapest first."""
    unprojected: tuple[Arm, ...]
    """Arms that failed or whose probes were too short."""
    unit: str
    """Unit of `Projected.cost`."""
    common_samples: float
    """Samples that all projected arms have seen."""

    @property
    def cheapest(self) -> Projected | None:
        return self.projected[0] if self.projected else None

    @property
    def as_cheap(self) -> tuple[Projected, ...]:
        """Arms whose cost cannot be distinguished from the cheapest arm's."""
        return tuple(each for each in self.projected[1:] if not each.is_separated_from(self.projected[0]))

    def cost_text(self, cost: float) -> str:
        """Return a cost as text, without its unit."""
        return money(cost) if self.unit == "USD" else figure(cost)

    @property
    def fastest(self) -> Projected | None:
        return min(self.projected, key=lambda each: each.seconds.estimate, default=None)

    @property
    def jobs(self) -> list[Job]:
        """All jobs, projected ones first."""
        return [job for arm in (*(each.arm for each in self.projected), *self.unprojected) for job in arm.jobs]

    def total(self, column: str) -> float:
        """Return the sum of a cost column, such as `cost_usd`, over all probes."""
        return math.fsum(value for job in self.jobs if (value := job.number(column)) > 0)


def is_probe_table(table: pd.DataFrame) -> bool:
    """Return True if a table from `job_tables.jobs` contains probes."""
    return "hp_probe_precision" in table.columns and bool(table["hp_probe_precision"].notna().any())


def probes_of(
    table: pd.DataFrame,
    group: str,
    curves: Mapping[str, pd.DataFrame],
    spreads: Mapping[Machine, JobSpread] | None = None,
    discounts: Mapping[str, Discount] | None = None,
) -> Probes:
    """Return the projections; `curves` are `histories` tables of `loss` by run id.

    `spreads` are those of `job_spreads`; a machine that is missing has the default spread. `discounts` are those of
    `spot.discounts_of`.
    """
    arms = arms_of(table)
    projecting = [(arm, job) for arm in arms for job in arm.succeeded if _has_range(job, SECONDS)]
    jobs = [job for _, job in projecting]
    column, unit = _unit_of_cost(jobs)
    common = min((samples for job in jobs if (samples := job.number("samples")) > 0), default=math.nan)
    projected = []
    for arm, job in projecting:
        seconds, spread = _range(job, SECONDS), (spreads or {}).get(_machine_of(job), JobSpread())
        projected.append(
            Projected(
                arm=arm,
                job=job,
                seconds=seconds.of_the_next_job(spread),
                cost=_range(job, column).of_the_next_job(spread),
                step_error=seconds.relative_error,
                spread=spread,
                loss=_loss(curves.get(job.run_id), common),
                spot=estimate_of_probe(job, discounts or {}),
            )
        )
    return Probes(
        group=group,
        projected=tuple(sorted(projected, key=lambda each: each.cost.estimate)),
        unprojected=tuple(arm for arm in arms if arm not in [each.arm for each in projected]),
        unit=unit,
        common_samples=common,
    )


def arms_with_higher_loss(probes: Probes) -> list[tuple[Projected, Projected]]:
    """Return (arm, best arm) for every arm whose loss exceeds the lowest loss by more than the tolerance."""
    measured = [each for each in probes.projected if math.isfinite(each.loss)]
    if not measured:
        return []
    best = min(measured, key=lambda each: each.loss)
    return [(each, best) for each in measured if each.loss > best.loss + LOSS_TOLERANCE * abs(best.loss)]


def _unit_of_cost(jobs: Sequence[Job]) -> tuple[str, str]:
    if jobs and all(_has_range(job, USD) for job in jobs):
        return USD, "USD"
    types = {job.text.get("instance_type") for job in jobs}
    if len(types) == 1 and all(_has_range(job, INSTANCE_SECONDS) for job in jobs):
        return INSTANCE_SECONDS, "billable instance seconds"
    return SECONDS, "billable seconds"


def _has_range(job: Job, column: str) -> bool:
    """Return True if a job has a projection with both ends of its interval."""
    return all(math.isfinite(job.number(f"{column}{end}")) for end in ("", "_low", "_high"))


def _range(job: Job, column: str) -> Range:
    return Range(job.number(column), job.number(f"{column}_low"), job.number(f"{column}_high"))


def _loss(curve: pd.DataFrame | None, common: float) -> float:
    if curve is None or not math.isfinite(common):
        return math.nan
    later = curve[(curve["key"] == "loss") & (curve["samples"] > common / 2) & (curve["samples"] <= common)]
    return fmean(later["value"]) if len(later) else math.nan


def job_spreads(table: pd.DataFrame) -> dict[Machine, JobSpread]:
    """Return the spread between the repeats in a table from `similar_jobs.similar_jobs`.

    Repeats are jobs that differ in their seed alone, even of different groups. Probes, calibrations and jobs that end
    at a target do not count: their amount of work is not fixed.
    """
    costs: dict[Machine, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table.to_dict("records"):
        job = job_of(row)
        seconds, reaches_target = job.number("cost_billable_seconds"), (job.text.get("hp_target_stop") or "").lower()
        is_sweep_part = job.text.get("role") in ("calibration", "trial")
        is_open_ended = is_sweep_part or reaches_target == "true" or job.text.get("hp_probe_precision")
        if job.succeeded and seconds > 0 and not is_open_ended:
            setting = {**setting_of(row), "cache": job.cache_state, "samples": f"{job.number('samples'):g}"}
            costs[_machine_of(job)][frozenset(setting.items())].append(seconds)
    return {machine: job_spread(settings.values()) for machine, settings in costs.items()}


def _machine_of(job: Job) -> Machine:
    return job.text.get("hp_model"), job.text.get("instance_type"), job.text.get("device")
