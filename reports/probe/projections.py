"""A group of probes: what each arm's whole training would take and cost, and which arms can be told apart. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from reports.comparison.arms import Arm, Job, arms_of

SECONDS = "projected_billable_seconds"
INSTANCE_SECONDS = "projected_billable_instance_seconds"
USD = "projected_usd"
LOSS_TOLERANCE = 0.02
"""By how much a loss may be above the lowest one, relative to it, before that is told: as for verdicts."""


@dataclass(frozen=True)
class Range:
    """A projected number with its 95 % interval."""

    estimate: float
    low: float
    high: float

    @property
    def relative_error(self) -> float:
        """Half the interval's width over the estimate."""
        return (self.high - self.low) / 2 / self.estimate if self.estimate > 0 else math.inf

    def overlaps(self, other: Range) -> bool:
        """Tell whether the intervals have a value in common: such arms cannot be told apart."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Projected:
    """One arm's projection."""

    arm: Arm
    job: Job
    seconds: Range
    """Billable seconds of the whole training."""
    paid: Range
    """USD where every arm has a price; billable instance seconds where all run on machines of one type; else
    billable seconds."""
    loss: float
    """Mean training loss over the later half of the samples that all arms have seen; NaN where none was logged."""

    @property
    def is_uncertain(self) -> bool:
        """Whether the probe came to its end before its interval was as narrow as asked."""
        return self.seconds.relative_error > float(self.job.text.get("hp_probe_precision") or math.inf)


@dataclass(frozen=True)
class Probes:
    """Everything that a report of probes says."""

    group: str
    projected: tuple[Projected, ...]
    """The cheapest first."""
    without: tuple[Arm, ...]
    """Arms that failed or were too short to project."""
    unit: str
    """Of `paid`."""
    common_samples: float
    """Samples that all projected arms have seen."""

    @property
    def cheapest(self) -> Projected | None:
        """The arm with the lowest estimate."""
        return self.projected[0] if self.projected else None

    @property
    def as_cheap(self) -> tuple[Projected, ...]:
        """The arms that cannot be told from the cheapest."""
        return tuple(each for each in self.projected[1:] if each.paid.overlaps(self.projected[0].paid))

    @property
    def fastest(self) -> Projected | None:
        """The arm whose training would end first."""
        return min(self.projected, key=lambda each: each.seconds.estimate, default=None)

    @property
    def jobs(self) -> list[Job]:
        """All jobs, projected ones first."""
        return [job for arm in (*(each.arm for each in self.projected), *self.without) for job in arm.jobs]

    def spent(self, column: str) -> float:
        """Return what all probes took of `cost_usd`, or of billable instance seconds."""
        return math.fsum(value for job in self.jobs if (value := job.number(column)) > 0)


def is_of_probes(table: pd.DataFrame) -> bool:
    """Tell whether the jobs of `query.jobs`' table are probes."""
    return "hp_probe_precision" in table.columns and bool(table["hp_probe_precision"].notna().any())


def probes_of(table: pd.DataFrame, group: str, curves: Mapping[str, pd.DataFrame]) -> Probes:
    """Return what probes tell; `curves` are `histories` tables of `loss` by run id."""
    arms = arms_of(table)
    projecting = [(arm, job) for arm in arms for job in arm.succeeded if _tells(job, SECONDS)]
    jobs = [job for _, job in projecting]
    column, unit = _paid(jobs)
    common = min((samples for job in jobs if (samples := job.number("samples")) > 0), default=math.nan)
    projected = [
        Projected(arm, job, _range(job, SECONDS), _range(job, column), _loss(curves.get(job.run_id), common))
        for arm, job in projecting
    ]
    return Probes(
        group=group,
        projected=tuple(sorted(projected, key=lambda each: each.paid.estimate)),
        without=tuple(arm for arm in arms if arm not in [each.arm for each in projected]),
        unit=unit,
        common_samples=common,
    )


def losing(probes: Probes) -> list[tuple[Projected, Projected]]:
    """Return the arms whose loss after the same samples is above the lowest one by more than the tolerance, with it."""
    told = [each for each in probes.projected if math.isfinite(each.loss)]
    if not told:
        return []
    best = min(told, key=lambda each: each.loss)
    return [(each, best) for each in told if each.loss > best.loss + LOSS_TOLERANCE * abs(best.loss)]


def _paid(jobs: Sequence[Job]) -> tuple[str, str]:
    if jobs and all(_tells(job, USD) for job in jobs):
        return USD, "USD"
    if len({job.text.get("instance_type") for job in jobs}) == 1 and all(_tells(job, INSTANCE_SECONDS) for job in jobs):
        return INSTANCE_SECONDS, "billable instance seconds"
    return SECONDS, "billable seconds"


def _tells(job: Job, column: str) -> bool:
    """Tell whether a job has a projected number with both ends of its interval."""
    return all(math.isfinite(job.number(f"{column}{end}")) for end in ("", "_low", "_high"))


def _range(job: Job, column: str) -> Range:
    return Range(job.number(column), job.number(f"{column}_low"), job.number(f"{column}_high"))


def _loss(curve: pd.DataFrame | None, common: float) -> float:
    if curve is None or not math.isfinite(common):
        return math.nan
    later = curve[(curve["key"] == "loss") & (curve["samples"] > common / 2) & (curve["samples"] <= common)]
    return fmean(later["value"]) if len(later) else math.nan
