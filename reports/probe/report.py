"""Projected time and cost of each arm's whole training, from a group of probes, and the report about them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from statistics import fmean
from typing import Any, TypeAlias

import pandas as pd

from judging.next_job import MIN_FREEDOM, JobSpread, are_separated, job_spread, next_job_error
from reports.comparison.messages import data_sentences, disturbance_sentences, warning_sentences
from reports.comparison.report import Source, chart_sections, ran_on_sections
from reports.comparison.tables import job_sections
from reports.model.numbers import counted, factor, figure, joined, money, score, short
from reports.model.report import (
    Cell,
    Chart,
    Column,
    Definition,
    Metric,
    Report,
    Section,
    Table,
    Text,
    build_table,
    measured_section,
    number_cell,
)
from reports.probe.spot import spot_sentences, spot_table
from tracking.groups.planned_job import BEFORE_TRAININGS
from tracking.recorded.arms import BILLABLE, Arm, arms_of, setting_of
from tracking.recorded.recorded_job import STEADY, Discount, Job, SpotEstimate, estimate_of_probe, job_of
from training.contract.failures import Failure

SECONDS = "projected_billable_seconds"
INSTANCE_SECONDS = "projected_billable_instance_seconds"
USD = "projected_usd"
LOSS_TOLERANCE = 0.02
"""A loss that exceeds the lowest one by more than this share is reported; verdicts use the same tolerance."""
Machine: TypeAlias = tuple[str | None, str | None, str | None]
"""Model, instance type and device. Jobs that agree in them are similar."""
_CAVEAT = (
    "An interval is for the next job: it covers the noise of the measured steps and the spread between jobs of one "
    "setting. A probe says nothing about the quality of the whole training; a comparison measures it."
)
_MEASURED = (
    Definition(
        "Projected time",
        "Billable seconds of the probe, plus the seconds of the remaining steps, evaluations and checkpoints. A step's "
        "time depends on the length of its batch, which is known for all steps in advance.",
    ),
    Definition(
        "Interval",
        "95 % interval of the next job, from the measured steps and the spread between the tracked repeats of this "
        "model on this machine.",
    ),
    Definition(
        "Cannot be distinguished",
        "The interval of the ratio of two costs includes 1. One of two equal arms is called the cheapest in 1.8 to "
        "6.0 % of recorded pairs.",
    ),
)


@dataclass(frozen=True)
class Range:
    """A projected number with its 95 % interval, whose ends are NaN if it has none."""

    estimate: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low)

    @property
    def relative_error(self) -> float:
        return (self.high - self.low) / 2 / self.estimate if self.estimate > 0 else math.inf

    def of_the_next_job(self, spread: JobSpread | None) -> Range:
        """Return the interval of the next job, from an interval that covers only the steps of one job."""
        if self.estimate <= 0:
            return self
        if spread is None:
            return Range(self.estimate, math.nan, math.nan)
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
    spread: JobSpread | None
    """Spread between jobs of one setting; None without enough repeats, or if the probe was disturbed."""
    loss: float
    """Mean training loss over the second half of the samples that all arms have seen; NaN if no loss was logged."""
    spot: SpotEstimate | None
    """The training on spot capacity; None on this machine, and if it is not known."""

    def is_separated_from(self, other: Projected, mine: Range, others: Range) -> bool:
        """Return True if two arms differ in one of their figures, such as the cost."""
        errors, spreads = (self.step_error, other.step_error), (self.spread, other.spread)
        return are_separated((mine.estimate, others.estimate), errors, spreads)


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
        if not self.projected:
            return ()
        first, others = self.projected[0], self.projected[1:]
        return tuple(each for each in others if not each.is_separated_from(first, each.cost, first.cost))

    def cost_text(self, cost: float) -> str:
        return money(cost) if self.unit == "USD" else figure(cost)

    @property
    def jobs(self) -> list[Job]:
        """All jobs, projected ones first."""
        return [job for arm in (*(each.arm for each in self.projected), *self.unprojected) for job in arm.jobs]

    def total(self, column: str) -> float:
        """Return the sum of a cost column, such as `cost_usd`, over all probes."""
        return math.fsum(value for job in self.jobs if (value := job.number(column)) > 0)


def is_probe_table(table: pd.DataFrame) -> bool:
    return "hp_probe_precision" in table.columns and bool(table["hp_probe_precision"].notna().any())


def probes_of(
    table: pd.DataFrame,
    group: str,
    curves: Mapping[str, pd.DataFrame],
    spreads: Mapping[Machine, JobSpread] | None = None,
    discounts: Mapping[str, Discount] | None = None,
) -> Probes:
    """Return the projections; `curves` are `histories` tables of `loss` by run id.

    `spreads` come from `job_spreads`; without one, and for a disturbed probe, a projection has no interval. `discounts`
    come from `spot.discounts_of`.
    """
    arms = arms_of(table)
    projecting = [(arm, job) for arm in arms for job in arm.succeeded if _has_range(job, SECONDS)]
    jobs = [job for _, job in projecting]
    column, unit = _unit_of_cost(jobs)
    common = min((samples for job in jobs if (samples := job.number("samples")) > 0), default=math.nan)
    projected = []
    for arm, job in projecting:
        seconds, spread = _range(job, SECONDS), None if job.disturbances else (spreads or {}).get(_machine_of(job))
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
    """Return the spread between the repeats in a table from `similar_jobs.similar_jobs`, where they are enough.

    Repeats are jobs that differ in their seed alone, even of different groups. Probes, calibrations, checks and jobs
    that end at a target do not count: their amount of work is not fixed.
    """
    costs: dict[Machine, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table.to_dict("records"):
        job = job_of(row)
        seconds, reaches_target = job.number("cost_billable_seconds"), (job.text.get("hp_target_stop") or "").lower()
        is_part = job.text.get("role") in (*BEFORE_TRAININGS, "trial")
        is_open_ended = is_part or reaches_target == "true" or job.text.get("hp_probe_precision")
        if job.succeeded and seconds > 0 and not is_open_ended:
            setting = {**setting_of(row), "cache": job.cache_state, "samples": f"{job.number('samples'):g}"}
            costs[_machine_of(job)][frozenset(setting.items())].append(seconds)
    return {machine: spread for machine, settings in costs.items() if (spread := job_spread(settings.values()))}


def _machine_of(job: Job) -> Machine:
    return job.text.get("hp_model"), job.text.get("instance_type"), job.text.get("device")


def probe_report(probes: Probes, charts: Sequence[Chart], source: Source) -> Report:
    answer, remarks = headline(probes), tuple(map(Text, sentences(probes)))
    on_spot = [(each.arm.label, each.spot) for each in probes.projected if each.spot is not None]
    projections = (projection_table(probes),) if probes.projected else ()
    tables = (*projections, *([spot_table(on_spot)] if on_spot else []))
    caveat = (Text(_CAVEAT, "muted"),) if probes.projected else ()
    sections = (
        *(Section("The arms, cheapest first", (table,)) for table in projections),
        *(Section(table.name, (table,)) for table in tables[len(projections) :]),
        *chart_sections(charts),
        *job_sections(probes.jobs, source.tracking_uri),
    )
    return Report(
        group=probes.group,
        title=source.title,
        headline=answer,
        answer=(*remarks, *caveat),
        sections=(
            *sections,
            measured_section(*_MEASURED),
            *ran_on_sections(probes.jobs, source.environment, probes.group),
        ),
        brief=(*tables, *remarks, *caveat),
        missing=source.missing,
        summary=_summary(probes),
        metrics=tuple(_metrics(probes)),
        short_answer=_short_answer(probes),
        rows_csv=source.table.to_csv(index=False),
    )


def headline(probes: Probes) -> str:
    cheapest = probes.cheapest
    if cheapest is None:
        return "No projection: no arm trained for long enough."
    estimate, low, high = (probes.cost_text(value) for value in astuple(cheapest.cost))
    would = f"would {'cost' if probes.unit == 'USD' else 'take'} {estimate} {probes.unit}"
    would += f" ({low} to {high})" if cheapest.cost.has_interval else ""
    answer = f"“{cheapest.arm.label}” {would} for the whole training"
    if len(probes.projected) == 1:
        return f"{answer}."
    if cheapest.spread is None:
        return f"{answer}, the lowest of {len(probes.projected)} estimates."
    if similar := probes.as_cheap:
        return f"{answer}; {joined([f'“{each.arm.label}”' for each in similar])} cannot be distinguished from it."
    return f"{answer}, the cheapest of the {len(probes.projected)} arms."


def sentences(probes: Probes) -> list[str]:
    remarks = [sentence for each in probes.projected for sentence in warning_sentences(each.arm)]
    cheapest, fastest = probes.cheapest, min(probes.projected, key=lambda each: each.seconds.estimate, default=None)
    if cheapest and fastest and cheapest.is_separated_from(fastest, cheapest.seconds, fastest.seconds):
        speed = cheapest.seconds.estimate / fastest.seconds.estimate
        cost = fastest.cost.estimate / cheapest.cost.estimate
        remarks.append(
            f"The fastest is “{fastest.arm.label}”: {figure(fastest.seconds.estimate)} s, {factor(speed)} times as "
            f"fast as “{cheapest.arm.label}” at {factor(cost)} times its cost."
        )
    precisions = ((each, float(each.job.text.get("hp_probe_precision") or math.inf)) for each in probes.projected)
    if wide := [f"“{each.arm.label}”" for each, requested in precisions if each.step_error > requested]:
        remarks.append(
            f"{joined(wide)} ran out of samples before the projection was as precise as requested: raise "
            "probe.samples, or measure on a machine with less noise."
        )
    measured = [each for each in probes.projected if math.isfinite(each.loss)]
    best = min(measured, key=lambda each: each.loss, default=None)
    remarks += [
        f"After {figure(probes.common_samples)} samples, the loss of “{each.arm.label}” is "
        f"{figure(100 * (each.loss / best.loss - 1))} % above the loss of “{best.arm.label}”."
        for each in measured
        if best and best.loss > 0 and each.loss > best.loss * (1 + LOSS_TOLERANCE)
    ]
    for arm in probes.unprojected:
        job = arm.jobs[0]
        reason = job.text.get("failure_message") or "too few steps to project"
        why = "it was stopped" if job.stopped else Failure(job.text.get("failure_class") or "", reason).text
        remarks.append(f"“{arm.label}” has no projection: {why}")
    if cheapest and cheapest.spot:  # the table has the other arms
        remarks += spot_sentences(cheapest.arm.label, cheapest.spot)
    remarks += [
        f"The intervals include the spread between {spread.jobs} tracked jobs of this experiment, "
        f"{figure(100 * spread.relative)} %."
        for spread in dict.fromkeys(each.spread for each in probes.projected if each.spread)
    ]
    remarks += data_sentences(probes.jobs)
    remarks += disturbance_sentences(probes.jobs)
    if without := [f"“{each.arm.label}”" for each in probes.projected if each.spread is None]:
        remarks.append(
            f"No interval for {joined(without)}: it needs an undisturbed probe and {MIN_FREEDOM + 1} tracked trainings "
            "of this model on this machine that differ only in their seed."
        )
    usd, seconds = probes.total("cost_usd"), figure(probes.total(BILLABLE))
    dollars = f" and {money(usd)} USD" if usd else ""
    jobs = counted(len(probes.jobs), "probe")
    return [*remarks, f"{jobs} took {seconds} billable instance seconds{dollars} in all."]


def projection_table(probes: Probes) -> Table:
    """Return the table with a row per projected arm, the cheapest first."""

    def cell(each: Range, text: Callable[[float], str]) -> Cell:
        return number_cell(each.estimate, text, f"{text(each.low)}–{text(each.high)}" if each.has_interval else "")

    def error(projected: Projected) -> float | None:
        return 100 * projected.seconds.relative_error if projected.seconds.estimate > 0 else None

    cost = Column[Projected]("projected cost", lambda p: cell(p.cost, money), head="whole\nUSD", unit="USD")
    columns = [
        Column[Projected]("arm", lambda p: p.arm.label),
        *([cost] if probes.unit == "USD" else []),
        Column[Projected]("projected time", lambda p: cell(p.seconds, figure), head="whole\ns", unit="s"),
        Column[Projected]("interval", error, head="±\n%", unit="± %", is_optional=True),
        Column[Projected]("steady", lambda p: p.job.number(STEADY), head="steady\nsamples\n/s", unit="samples/s"),
        Column[Projected]("compile + warm-up", lambda p: p.job.setup_seconds, head="compile,\nwarm-up\ns", unit="s"),
        Column[Projected]("training loss at equal samples", lambda p: p.loss, head="loss", text=score),
        Column[Projected]("samples measured", lambda p: p.job.number("samples"), head="samples\nrun"),
        Column[Projected]("the probe itself", lambda p: p.job.number(BILLABLE), head="probe\ns", unit="s"),
    ]
    return build_table("The arms", columns, probes.projected)


def _metrics(probes: Probes) -> Iterator[Metric]:
    for each in probes.projected:
        projected = {"projected_billable_seconds": each.seconds}
        projected |= {"projected_usd": each.cost} if probes.unit == "USD" else {}
        for name, value in projected.items():
            interval = (value.low, value.high)
            yield Metric(name=name, label=each.arm.label, value=value.estimate, interval=interval)


def _short_answer(probes: Probes) -> str:
    cheapest = probes.cheapest
    if cheapest is None:
        return "no projection"
    similar = f" and {len(probes.as_cheap)} more" if probes.as_cheap else ""
    unit = "USD" if probes.unit == "USD" else "s"
    return f"{short(cheapest.arm.label)}{similar}, {probes.cost_text(cheapest.cost.estimate)} {unit}"


def _summary(probes: Probes) -> dict[str, Any]:
    return {
        "group": probes.group,
        "headline": headline(probes),
        "unit_of_cost": probes.unit,
        "common_samples": probes.common_samples,
        "not_separated_from_the_cheapest": [each.arm.label for each in probes.as_cheap],
        "arms": [
            {
                "label": each.arm.label,
                "seconds": asdict(each.seconds),
                "cost": asdict(each.cost),
                "loss": each.loss,
                "samples_measured": each.job.number("samples"),
                "step_error": each.step_error,
                "spot": asdict(each.spot) if each.spot else None,
                "spread_between_jobs": each.spread and {"relative": each.spread.relative, "jobs": each.spread.jobs},
            }
            for each in probes.projected
        ],
        "without_projection": [arm.label for arm in probes.unprojected],
    }
