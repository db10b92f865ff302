"""Remarks about a sweep: the certainty of its answer, its cost, its failures and why it ended."""

from __future__ import annotations

import math

from reports.comparison.messages import unlike_sentences, warning_sentences
from reports.model.numbers import change, figure, money
from reports.model.wording import counted, joined
from reports.sweep.factorial import changed_factors, factorial_cells
from reports.sweep.grid_cost import grid_of
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Trial, setting_of
from reports.sweep.units import NOUNS, UNITS, cost_figure

OUTCOMES = {
    "worse": "completed beyond the bound",
    "not reached": "without reaching the target",
    "pruned": "stopped early",
    "failed": "that failed",
    "stopped": "that a person stopped",
}
CAVEAT = "The best of many trials is partly the luckiest one: only repeats show its cost."


def sentences(sweep: Sweep) -> list[str]:
    """Return the remarks about this sweep."""
    return [
        *_warnings(sweep),
        *_certainty(sweep),
        *effects(sweep),
        *_cost(sweep),
        *_failures(sweep),
        *_savings(sweep),
        *_end(sweep),
    ]


def effects(sweep: Sweep) -> list[str]:
    """Return the effects on the cost: of the compiler alone, of the batch alone, and of both."""
    cells = [cell for cell in factorial_cells(sweep) if cell.ratio]
    parts = [f"{changed_factors(cell, sweep.base)} {change(cell.ratio.estimate)}" for cell in cells if cell.ratio]
    return [f"Against {sweep.base}: {'; '.join(parts)} {NOUNS.get(sweep.spec.cost, '')}."] if parts else []


def _warnings(sweep: Sweep) -> list[str]:
    arms = sweep.confirmation.arms if sweep.confirmation else ()
    return [sentence for arm in arms for sentence in warning_sentences(arm)]


def _certainty(sweep: Sweep) -> list[str]:
    if sweep.best is None or sweep.spec.is_front:
        return []
    return [*_finalists(sweep), *_repeats(sweep, sweep.best)]


def _finalists(sweep: Sweep) -> list[str]:
    n = sum(trial.second_cost is not None for trial in sweep.trials)
    if not n:
        return []
    return [f"The {n} best settings trained a second time with another seed; both trainings together chose the winner."]


def _repeats(sweep: Sweep, best: Trial) -> list[str]:
    n, has_interval = len(sweep.trials), sweep.interval_of(best) is not None
    if sweep.arm_of(best.setting) is None:
        return [f"The best setting was not repeated. {CAVEAT}" if n > 1 else "The best setting was not repeated."]
    source = f"The interval comes from separate repeats, not from the {n} trials from which this setting was chosen."
    unlike = unlike_sentences(sweep.confirmation) if sweep.confirmation and not sweep.spec.is_rate else []
    return [*([source] if n > 1 and has_interval else []), *unlike, *_better_repeats(sweep, best)]


def _better_repeats(sweep: Sweep, best: Trial) -> list[str]:
    """Return a sentence about the setting whose repeats beat those of the best trial's setting; empty if none did."""
    own = sweep.repeated_cost(best.setting)
    others = {setting_of(arm.jobs[0]) for arm in (sweep.confirmation.arms if sweep.confirmation else ())}
    costs = {setting: cost for setting in others if math.isfinite(cost := sweep.repeated_cost(setting))}
    if not costs:
        return []
    first = (max if sweep.spec.is_rate else min)(costs, key=lambda setting: (costs[setting], str(setting)))
    unit = UNITS.get(sweep.spec.cost, sweep.spec.cost)
    if math.isnan(own):
        return [
            f"The best setting that succeeded in every repeat is {first}: {cost_figure(sweep, costs[first])} {unit}."
        ]
    if costs[first] == own or first in (best.setting, sweep.base):
        return []
    texts = f"{cost_figure(sweep, costs[first])} {unit} against {cost_figure(sweep, own)} {unit}"
    return [f"In the repeats, {first} was better: {texts}."]


def _cost(sweep: Sweep) -> list[str]:
    if not sweep.jobs:
        return []
    *_, total = sweep.cost_by_role()
    dollars = f" and {money(total.usd)} USD" if total.usd > 0 else ""
    wasted = [
        f"{figure(each.seconds)} in {counted(each.jobs, 'trial')} {OUTCOMES[each.what]}"
        for each in sweep.cost_by_outcome()
        if each.what in ("not reached", "pruned", "failed", "stopped")
    ]
    included = f", including {joined(wasted)}" if wasted else ""
    jobs = f"{total.jobs} job{'' if total.jobs == 1 else 's'}"
    return [f"The sweep's {jobs} took {figure(total.seconds)} billable instance seconds{dollars} in all{included}."]


def _failures(sweep: Sweep) -> list[str]:
    """Reasons why trials failed: each failure class once, with its first trial's message."""
    failed = {trial.end.partition(": ")[2] or "an unknown error": trial.failure for trial in sweep.failed[::-1]}
    messages = {name: f": {message.rstrip('.')}" if message else "" for name, message in failed.items()}
    return [f"Failed with {name}{message}." for name, message in messages.items()]


def _savings(sweep: Sweep) -> list[str]:
    best, savings = sweep.best, _grid_share(sweep)
    is_in_seconds = sweep.spec.cost == "billable_seconds" and not sweep.spec.is_front
    if best and is_in_seconds and sweep.saving > 0 and _is_not_refuted(sweep, best):
        trainings = math.ceil(sweep.cost_by_role()[-1].seconds / sweep.saving)
        savings.append(f"The sweep pays off after {counted(trainings, 'training')} with its best setting.")
    return savings


def _grid_share(sweep: Sweep) -> list[str]:
    grid = grid_of(sweep)
    if not (sweep.best and grid and grid.seconds > 0 and sweep.search_seconds > 0):
        return []
    share, were = sweep.search_seconds / grid.seconds, "was" if grid.trained == 1 else "were"
    return [
        f"The search took {figure(100 * share)} % of the {figure(grid.seconds)} s that all {grid.settings} settings "
        f"are predicted to take ({grid.trained} of them {were} trained to the end)."
    ]


def _is_not_refuted(sweep: Sweep, best: Trial) -> bool:
    """Return True if the setting was not repeated, or if its repeats confirm it."""
    contrast = sweep.contrast_of(best.setting)
    return contrast is None or contrast.verdict.outcome == "cheaper"


def _end(sweep: Sweep) -> list[str]:
    compilers: dict[str, list[str]] = {}
    for compiler, reason in sweep.spec.stopped_because.items():
        compilers.setdefault(reason.strip().rstrip("."), []).append(compiler)
    if len(compilers) == 1:
        return [f"The search has ended: {reason}." for reason in compilers]
    return [f"The search has ended for {joined(names)}: {reason}." for reason, names in compilers.items()]
