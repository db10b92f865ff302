"""What probes tell, in plain words: the same on the page, in the terminal and in MLflow."""

from __future__ import annotations

import math

from reports.comparison.columns import Column
from reports.comparison.comparison import STEADY
from reports.comparison.equal_work import PAID
from reports.comparison.messages import NONE, figure, score, times
from reports.probe.projections import Probes, Projected, Range, losing
from training.contract.failures import brief

CAVEAT = (
    "An interval tells the noise of the steps measured; it knows nothing of another machine of the same type, nor of "
    "the quality that the whole training reaches; a comparison does."
)


def headline(probes: Probes) -> str:
    """Return the answer in one sentence."""
    cheapest = probes.cheapest
    if cheapest is None:
        return "No projection: no arm got far enough to tell."
    told = f"“{cheapest.arm.label}” would take {_amount(cheapest.paid, probes.unit)} for the whole training"
    if len(probes.projected) == 1:
        return f"{told}."
    if alike := probes.as_cheap:
        return f"{told}; {_and([f'“{each.arm.label}”' for each in alike])} cannot be told apart from it."
    return f"{told}, the least of all {len(probes.projected)} arms."


def sentences(probes: Probes) -> list[str]:
    """Return what else these probes tell, a sentence each."""
    arms = [each.arm for each in probes.projected]
    doubts = [f"“{arm.label}” is not what it says: {doubt}." for arm in arms for doubt in arm.compiler_doubts]
    told = [*doubts, *_fastest(probes), *_uncertain(probes), *_losses(probes), *_failed(probes)]
    return [*told, _spend(probes)]


def columns(probes: Probes) -> list[Column[Projected]]:
    """Return the table's columns, the arm's name first."""
    paid = Column("projected cost", "whole\nUSD", "USD", lambda p: _money(p.paid.estimate), _money_range)
    return [
        Column("arm", "arm", "", lambda p: p.arm.label),
        *([paid] if probes.unit == "USD" else []),
        Column("projected time", "whole\ns", "s", lambda p: figure(p.seconds.estimate), _seconds_range),
        Column("interval", "±\n%", "± %", _relative),
        Column("steady", "steady\nsamples\n/s", "samples/s", lambda p: figure(p.job.number(STEADY))),
        Column("compile + warm-up", "compile,\nwarm-up\ns", "s", lambda p: figure(p.job.setup_seconds)),
        Column("training loss at equal samples", "loss", "", lambda p: score(p.loss)),
        Column("samples measured", "samples\nrun", "", lambda p: figure(p.job.number("samples"))),
        Column("the probe itself", "probe\ns", "s", lambda p: figure(p.job.number(PAID))),
    ]


def _amount(paid: Range, unit: str) -> str:
    if unit == "USD":
        return f"{_money(paid.estimate)} USD ({_money(paid.low)} to {_money(paid.high)})"
    return f"{figure(paid.estimate)} {unit} ({figure(paid.low)} to {figure(paid.high)})"


def _fastest(probes: Probes) -> list[str]:
    cheapest, fastest = probes.cheapest, probes.fastest
    if not cheapest or not fastest or cheapest is fastest or cheapest.seconds.overlaps(fastest.seconds):
        return []
    as_fast = cheapest.seconds.estimate / fastest.seconds.estimate
    cost = fastest.paid.estimate / cheapest.paid.estimate
    return [
        f"The fastest is “{fastest.arm.label}”: {figure(fastest.seconds.estimate)} s, {times(as_fast)} times as fast "
        f"as “{cheapest.arm.label}” at {times(cost)} times its cost."
    ]


def _uncertain(probes: Probes) -> list[str]:
    wide = [f"“{each.arm.label}”" for each in probes.projected if each.is_uncertain]
    if not wide:
        return []
    return [
        f"{_and(wide)} came to the end of {'its' if len(wide) == 1 else 'their'} samples before the interval was as "
        "narrow as asked: raise probe.samples, or measure on a machine with less noise."
    ]


def _losses(probes: Probes) -> list[str]:
    return [
        f"After {figure(probes.common_samples)} samples the loss of “{each.arm.label}” is "
        f"{figure(100 * (each.loss / best.loss - 1))} % above that of “{best.arm.label}”."
        for each, best in losing(probes)
        if best.loss > 0
    ]


def _failed(probes: Probes) -> list[str]:
    told = []
    for arm in probes.without:
        job = arm.jobs[0]
        reason = job.text.get("failure_message") or "too few steps to project"
        failure_class = job.text.get("failure_class") or job.status.lower()
        told.append(f"“{arm.label}” is not projected: {failure_class}, {brief(reason)}")
    return told


def _spend(probes: Probes) -> str:
    usd = probes.spent("cost_usd")
    money = f" and {_money(usd)} USD" if usd else ""
    jobs = f"{len(probes.jobs)} probe{'' if len(probes.jobs) == 1 else 's'}"
    return f"{jobs} took {figure(probes.spent(PAID))} billable instance seconds{money} in all."


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _money(usd: float) -> str:
    return NONE if math.isnan(usd) else f"{usd:.4f}" if usd < 0.1 else f"{usd:,.2f}"


def _money_range(projected: Projected) -> str:
    return f"{_money(projected.paid.low)}–{_money(projected.paid.high)}"


def _seconds_range(projected: Projected) -> str:
    return f"{figure(projected.seconds.low)}–{figure(projected.seconds.high)}"


def _relative(projected: Projected) -> str:
    told = projected.seconds
    return figure(100 * told.relative_error) if told.estimate > 0 else NONE
