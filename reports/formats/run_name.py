"""A report's answer in the few words that fit into a run's name, such as `inductor 20 % cheaper`. Pure."""

from __future__ import annotations

from judging.intervals import Interval
from reports.comparison.comparison import Comparison
from reports.comparison.equal_work import PAID
from reports.comparison.messages import figure, percent
from reports.comparison.text import short
from reports.formats.report import Report
from reports.probe.projections import Probes
from reports.sweep.messages import interval_of, money
from reports.sweep.sweep import Sweep

LONGEST = 70
"""Characters of a name."""
_FEWEST = 12
"""Of a setting, however long all the rest is."""


def answered(name: str, report: Report) -> str:
    """Return a run's name with the answer before it: `inductor 20 % cheaper (compare demo)`.

    The answer first, because MLflow's table of runs shows some 20 characters. Where all of it is longer than `LONGEST`,
    the setting is cut, never what is said of it.
    """
    setting, told = _answer(report)
    room = LONGEST - len(f"{told} ({name})")
    return f"{short(setting, max(room, _FEWEST))}{told} ({name})"


def is_answered(name: str, whole: str) -> bool:
    """Tell whether `whole` is the run's name as it began, or what `answered` made of it, and not somebody's own."""
    return whole == name or whole.endswith(f" ({name})")


def _answer(report: Report) -> tuple[str, str]:
    """Return the setting that is told of, empty for none, and what is told of it."""
    if report.sweep:
        return _of_sweep(report.sweep)
    return _of_probes(report.probes) if report.probes else _of_comparison(report.comparison)


def _of_comparison(comparison: Comparison) -> tuple[str, str]:
    baseline, outcomes = comparison.baseline, {contrast.verdict.outcome for contrast in comparison.contrasts}
    if baseline is None:
        return "", "no jobs"
    if not any(arm.succeeded for arm in comparison.arms):
        return "", "no answer yet" if any(job.unfinished for job in comparison.jobs) else "failed"
    if not comparison.contrasts:
        paid = baseline.summary(PAID)
        return "", f"{figure(paid.median)} s billed" if paid else "billed seconds unknown"
    if (best := comparison.best) and best.verdict.ratio:
        return _cheaper(best.arm.label, best.verdict.ratio)
    if outcomes == {"not cheaper"}:
        return "", "nothing cheaper"
    return "", "not comparable" if outcomes == {"not comparable"} else "inconclusive"


def _of_sweep(sweep: Sweep) -> tuple[str, str]:
    best = sweep.best
    if best is None:
        return "", "no answer"
    if sweep.asked.is_front and len(sweep.front) > 1:
        return "", f"{len(sweep.front)} settings on the front"
    if best.setting == sweep.base:
        return "", "nothing better"
    contrast, ratio = sweep.contrast_of(best.setting), interval_of(sweep, best)
    outcome = contrast.verdict.outcome if contrast else None
    if outcome == "not comparable":
        return "", "not comparable"
    if ratio is None:
        return str(best.setting), ", not reliably" if outcome == "not cheaper" else ", the best trial"
    if sweep.asked.is_rate:
        return (str(best.setting), f", {percent(ratio.estimate)} % faster") if ratio.low > 1 else ("", "inconclusive")
    if outcome == "cheaper":
        return _cheaper(str(best.setting), ratio)
    return "", "nothing cheaper" if outcome == "not cheaper" else "inconclusive"


def _of_probes(probes: Probes) -> tuple[str, str]:
    cheapest = probes.cheapest
    if cheapest is None:
        return "", "no projection"
    paid = cheapest.paid.estimate
    alike = f" and {len(probes.as_cheap)} more" if probes.as_cheap else ""
    return cheapest.arm.label, f"{alike}, {f'{money(paid)} USD' if probes.unit == 'USD' else f'{figure(paid)} s'}"


def _cheaper(setting: str, ratio: Interval) -> tuple[str, str]:
    # A comma apart from a name that ends in a number, or has commas of its own.
    return setting, f"{'' if setting.isalpha() else ','} {percent(ratio.estimate)} % cheaper"
