"""The report of a group of probes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Any

from reports.comparison.arms import STEADY
from reports.comparison.equal_work import BILLABLE
from reports.comparison.messages import warning_sentences
from reports.comparison.report import MEASURED, Source, chart_sections, ran_on_sections
from reports.comparison.tables import job_sections
from reports.model.numbers import NONE, counted, factor, figure, joined, money, score
from reports.model.report import (
    Chart,
    Column,
    Definition,
    Definitions,
    Metric,
    Report,
    Section,
    Sentences,
    ShortAnswer,
    Table,
    Text,
    build_table,
)
from reports.probe.projections import Probes, Projected, arms_with_higher_loss
from reports.probe.spot import DEFINITION, spot_sentences, spot_table
from training.contract.failures import recorded_failure

_CAVEAT = (
    "An interval is for the next job: it covers the noise of the measured steps and the spread between jobs of one "
    "setting. It does not cover the quality of the whole training; a comparison measures it."
)
_DEFINITIONS = (
    Definition(
        "Projected time",
        "Billable seconds of the probe, plus those of the rest of the training: steps, evaluations (without scoring) "
        "and checkpoints. A step's time depends on the length of its batch, which is known for all steps in advance. A "
        "straight line of seconds over positions, fitted to the measured steps, predicts the remaining ones.",
    ),
    Definition(
        "Interval",
        "95 % interval of the next job. Its half-width is sqrt((1.25 h)² + (1.96 √2 s)²). h is the half-width from the "
        "means of five to ten consecutive blocks of steps; in simulations it held the true time in 89 to 93 of 100 "
        "cases, hence the factor 1.25. s is the spread between jobs of one setting, from the repeats of this model on "
        "this machine that the experiment has tracked, or else 3.7 %, as between 212 recorded jobs. Few repeats of "
        "your own count with Student's t instead of 1.96. A probe ends when h is narrow enough, which it checks after "
        "25, 50, 100 ... steady steps.",
    ),
    Definition(
        "Cannot be distinguished",
        "Arms for which the interval of the ratio of their costs includes 1. It has the errors of both projections and "
        "of both jobs. One of two equal arms is called the cheapest in 1.7 to 5.0 % of recorded pairs.",
    ),
    Definition(
        "Projected cost",
        "Projected time multiplied by the number of instances and by the price, which each run records with its source "
        "and date.",
    ),
    Definition(
        "Loss at equal samples", "Mean training loss over the second half of the samples that all arms have seen."
    ),
)


def probe_report(probes: Probes, charts: Sequence[Chart], source: Source) -> Report:
    answer, remarks = headline(probes), Sentences(tuple(sentences(probes)))
    on_spot = [(each.arm.label, each.spot) for each in probes.projected if each.spot is not None]
    projections = (projection_table(probes),) if probes.projected else ()
    tables = (*projections, *([spot_table(on_spot)] if on_spot else []))
    caveat = (Text(_CAVEAT, "muted"),) if probes.projected else ()
    definitions = (*_DEFINITIONS, *([DEFINITION] if on_spot else []))
    sections = (
        *(Section("The arms, cheapest first", (table,)) for table in projections),
        *(Section(table.name, (table,)) for table in tables[len(projections) :]),
        *chart_sections(charts),
        *job_sections(probes.jobs, source.tracking_uri),
        Section(MEASURED, (Definitions(definitions),)),
        *ran_on_sections(probes.jobs, source.environment, probes.group),
    )
    return Report(
        group=probes.group,
        title=source.title,
        headline=answer,
        answer=(remarks, *caveat),
        sections=sections,
        terminal=(Text(answer, "strong"), *tables, remarks, *caveat),
        markdown=(*tables, remarks, Text(_CAVEAT)),
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
    would = f"would {'cost' if probes.unit == 'USD' else 'take'} {estimate} {probes.unit} ({low} to {high})"
    answer = f"“{cheapest.arm.label}” {would} for the whole training"
    if len(probes.projected) == 1:
        return f"{answer}."
    if similar := probes.as_cheap:
        return f"{answer}; {joined([f'“{each.arm.label}”' for each in similar])} cannot be distinguished from it."
    return f"{answer}, the cheapest of the {len(probes.projected)} arms."


def sentences(probes: Probes) -> list[str]:
    remarks = [sentence for each in probes.projected for sentence in warning_sentences(each.arm)]
    cheapest, fastest = probes.cheapest, probes.fastest
    if cheapest and fastest and cheapest is not fastest and cheapest.is_faster_or_slower_than(fastest):
        speed = cheapest.seconds.estimate / fastest.seconds.estimate
        cost = fastest.cost.estimate / cheapest.cost.estimate
        remarks.append(
            f"The fastest is “{fastest.arm.label}”: {figure(fastest.seconds.estimate)} s, {factor(speed)} times as "
            f"fast as “{cheapest.arm.label}” at {factor(cost)} times its cost."
        )
    if wide := [f"“{each.arm.label}”" for each in probes.projected if each.is_uncertain]:
        remarks.append(
            f"{joined(wide)} ran out of samples before the projection was as precise as requested: raise "
            "probe.samples, or measure on a machine with less noise."
        )
    remarks += [
        f"After {figure(probes.common_samples)} samples, the loss of “{each.arm.label}” is "
        f"{figure(100 * (each.loss / best.loss - 1))} % above that of “{best.arm.label}”."
        for each, best in arms_with_higher_loss(probes)
        if best.loss > 0
    ]
    for arm in probes.unprojected:
        job = arm.jobs[0]
        reason = job.text.get("failure_message") or "too few steps to project"
        why = "it was stopped" if job.stopped else recorded_failure(job.text.get("failure_class") or "", reason).text
        remarks.append(f"“{arm.label}” has no projection: {why}")
    if cheapest and cheapest.spot:  # the table has the other arms
        remarks += spot_sentences(cheapest.arm.label, cheapest.spot)
    for spread in dict.fromkeys(each.spread for each in probes.projected):
        percent = figure(100 * spread.relative)
        origin = (
            f"the spread between {spread.jobs} tracked jobs of this experiment, {percent} %"
            if spread.jobs
            else f"the usual spread between jobs, {percent} %: this experiment has too few repeats of its own"
        )
        remarks.append(f"The intervals include {origin}.")
    usd, seconds = probes.total("cost_usd"), figure(probes.total(BILLABLE))
    dollars = f" and {money(usd)} USD" if usd else ""
    jobs = counted(len(probes.jobs), "probe")
    return [*remarks, f"{jobs} took {seconds} billable instance seconds{dollars} in all."]


def projection_table(probes: Probes) -> Table:
    """Return the table with a row per projected arm, the cheapest first."""

    def seconds(projected: Projected) -> str:
        return f"{figure(projected.seconds.low)}–{figure(projected.seconds.high)}"

    def usd(projected: Projected) -> str:
        return f"{money(projected.cost.low)}–{money(projected.cost.high)}"

    def relative(projected: Projected) -> str:
        return figure(100 * projected.seconds.relative_error) if projected.seconds.estimate > 0 else NONE

    cost = Column("projected cost", "whole\nUSD", "USD", lambda p: money(p.cost.estimate), usd)
    columns: list[Column[Projected]] = [
        Column("arm", "arm", "", lambda p: p.arm.label),
        *([cost] if probes.unit == "USD" else []),
        Column("projected time", "whole\ns", "s", lambda p: figure(p.seconds.estimate), seconds),
        Column("interval", "±\n%", "± %", relative),
        Column("steady", "steady\nsamples\n/s", "samples/s", lambda p: figure(p.job.number(STEADY))),
        Column("compile + warm-up", "compile,\nwarm-up\ns", "s", lambda p: figure(p.job.setup_seconds)),
        Column("training loss at equal samples", "loss", "", lambda p: score(p.loss)),
        Column("samples measured", "samples\nrun", "", lambda p: figure(p.job.number("samples"))),
        Column("the probe itself", "probe\ns", "s", lambda p: figure(p.job.number(BILLABLE))),
    ]
    return build_table("The arms", columns, probes.projected)


def _metrics(probes: Probes) -> Iterator[Metric]:
    """Yield the projected time and cost of each arm."""
    for each in probes.projected:
        projected = {"projected_billable_seconds": each.seconds}
        projected |= {"projected_usd": each.cost} if probes.unit == "USD" else {}
        for name, value in projected.items():
            interval = (value.low, value.high)
            yield Metric(name=name, label=each.arm.label, value=value.estimate, interval=interval)


def _short_answer(probes: Probes) -> ShortAnswer:
    """Return the cheapest arm with its cost."""
    cheapest = probes.cheapest
    if cheapest is None:
        return ShortAnswer("", "no projection")
    similar = f" and {len(probes.as_cheap)} more" if probes.as_cheap else ""
    unit = "USD" if probes.unit == "USD" else "s"
    return ShortAnswer(cheapest.arm.label, f"{similar}, {probes.cost_text(cheapest.cost.estimate)} {unit}")


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
                "spread_between_jobs": {"relative": each.spread.relative, "jobs": each.spread.jobs},
            }
            for each in probes.projected
        ],
        "without_projection": [arm.label for arm in probes.unprojected],
    }
