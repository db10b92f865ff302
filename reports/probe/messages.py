"""Sentences of a probe report."""

from __future__ import annotations

from reports.comparison.equal_work import BILLABLE
from reports.comparison.messages import warning_sentences
from reports.model.numbers import factor, figure, money
from reports.model.wording import counted, joined
from reports.probe.projections import Probes, Range, arms_with_higher_loss
from reports.spot.text import spot_sentences
from training.contract.failures import failure_text

CAVEAT = (
    "An interval is for the next job: it covers the noise of the measured steps and the spread between jobs of one "
    "setting. It does not cover the quality of the whole training; a comparison measures it."
)


def headline(probes: Probes) -> str:
    """Return the answer in one sentence."""
    cheapest = probes.cheapest
    if cheapest is None:
        return "No projection: no arm trained for long enough."
    verb = "cost" if probes.unit == "USD" else "take"
    answer = f"“{cheapest.arm.label}” would {verb} {_amount(cheapest.cost, probes.unit)} for the whole training"
    if len(probes.projected) == 1:
        return f"{answer}."
    if similar := probes.as_cheap:
        return f"{answer}; {joined([f'“{each.arm.label}”' for each in similar])} cannot be distinguished from it."
    return f"{answer}, the cheapest of the {len(probes.projected)} arms."


def spread_sentences(probes: Probes) -> list[str]:
    """Return the origin of the spread between jobs that the intervals include."""
    sentences = []
    for spread in probes.spreads:
        percent = figure(100 * spread.relative)
        source = (
            f"the spread between {spread.jobs} tracked jobs of this experiment, {percent} %"
            if spread.jobs
            else f"the usual spread between jobs, {percent} %: this experiment has too few repeats of its own"
        )
        sentences.append(f"The intervals include {source}.")
    return sentences


def sentences(probes: Probes) -> list[str]:
    """Return the remarks about these probes."""
    warnings = [sentence for each in probes.projected for sentence in warning_sentences(each.arm)]
    remarks = [*_fastest(probes), *_uncertain(probes), *_losses(probes), *_failed(probes)]
    return [*warnings, *remarks, *_on_spot(probes), *spread_sentences(probes), _cost(probes)]


def _amount(cost: Range, unit: str) -> str:
    if unit == "USD":
        return f"{money(cost.estimate)} USD ({money(cost.low)} to {money(cost.high)})"
    return f"{figure(cost.estimate)} {unit} ({figure(cost.low)} to {figure(cost.high)})"


def _fastest(probes: Probes) -> list[str]:
    cheapest, fastest = probes.cheapest, probes.fastest
    if not cheapest or not fastest or cheapest is fastest or not cheapest.is_faster_or_slower_than(fastest):
        return []
    speed = cheapest.seconds.estimate / fastest.seconds.estimate
    cost = fastest.cost.estimate / cheapest.cost.estimate
    return [
        f"The fastest is “{fastest.arm.label}”: {figure(fastest.seconds.estimate)} s, {factor(speed)} times as fast "
        f"as “{cheapest.arm.label}” at {factor(cost)} times its cost."
    ]


def _on_spot(probes: Probes) -> list[str]:
    """Return the sentences about the cheapest arm on spot capacity. The table has the others."""
    cheapest = probes.cheapest
    return spot_sentences(cheapest.arm.label, cheapest.spot) if cheapest and cheapest.spot else []


def _uncertain(probes: Probes) -> list[str]:
    wide = [f"“{each.arm.label}”" for each in probes.projected if each.is_uncertain]
    if not wide:
        return []
    return [
        f"{joined(wide)} ran out of samples before the projection was as precise as requested: raise probe.samples, or "
        "measure on a machine with less noise."
    ]


def _losses(probes: Probes) -> list[str]:
    return [
        f"After {figure(probes.common_samples)} samples, the loss of “{each.arm.label}” is "
        f"{figure(100 * (each.loss / best.loss - 1))} % above that of “{best.arm.label}”."
        for each, best in arms_with_higher_loss(probes)
        if best.loss > 0
    ]


def _failed(probes: Probes) -> list[str]:
    failures = []
    for arm in probes.unprojected:
        job = arm.jobs[0]
        reason = job.text.get("failure_message") or "too few steps to project"
        why = "it was stopped" if job.stopped else failure_text(job.text.get("failure_class") or "", reason)
        failures.append(f"“{arm.label}” has no projection: {why}")
    return failures


def _cost(probes: Probes) -> str:
    usd = probes.total("cost_usd")
    dollars = f" and {money(usd)} USD" if usd else ""
    jobs = counted(len(probes.jobs), "probe")
    return f"{jobs} took {figure(probes.total(BILLABLE))} billable instance seconds{dollars} in all."
