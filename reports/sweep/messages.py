"""The sentences of a sweep's report: its answer, the certainty of it, the cost, the failures and why it ended."""

from __future__ import annotations

import math

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.messages import unlike_sentences, warning_sentences
from reports.model.numbers import TOO_FEW, change, change_interval, counted, figure, joined, money, percent, score
from reports.sweep.sweep import Sweep, changed_factors, factorial_cells, grid_of
from reports.sweep.trials import Setting, Trial, setting_of

OUTCOMES = {
    "worse": "completed beyond the bound",
    "not reached": "without reaching the target",
    "pruned": "stopped early",
    "failed": "that failed",
    "stopped": "that a person stopped",
}

CAVEAT = "The best of many trials is partly the luckiest one: only repeats show its cost."

NOUNS = {"billable_seconds": "billable seconds", "usd": "dollars", "steady_samples_per_second": "samples/s"}

UNITS = {"billable_seconds": "s", "usd": "USD", "steady_samples_per_second": "samples/s"}


def headline(sweep: Sweep) -> str:
    """Return the answer in one sentence."""
    best = sweep.best
    if best is None:
        return _no_answer(sweep)
    if sweep.spec.is_front and len(sweep.front) > 1:
        return _front(sweep)
    contrast = sweep.contrast_of(best.setting)
    if best.setting == sweep.base:
        return f"The starting setting, {sweep.base}, remains the best: {cost_text(sweep, best)}."
    if contrast and contrast.verdict.outcome == "not comparable":
        return f"No verdict on {best.setting}, the best of {_trials(sweep)}: {contrast.verdict.reason}."
    interval = sweep.interval_of(best)
    return _confirmed(sweep, best, interval) if interval else _unconfirmed(sweep, best)


def _no_answer(sweep: Sweep) -> str:
    spec, trials = sweep.spec, sweep.trials
    if not sweep.jobs:
        return "This sweep has no jobs."
    if not trials:
        return f"No trial yet: {_calibrated(sweep)}."
    running = sum(trial.kind == "running" for trial in trials)
    if running:
        verb = "is" if running == 1 else "are"
        return f"No answer yet: {running} of {_trials(sweep)} {verb} still running, and none has completed."
    if spec.target is not None and any(trial.kind == "not reached" for trial in trials):
        return f"No answer: none of {_trials(sweep)} reached {spec.metric} {spec.target:g}."
    if spec.bound is not None and any(trial.kind == "worse" for trial in trials):
        return f"No answer: every trial that completed is worse than {spec.metric} {spec.bound:g}."
    return f"No answer: none of {_trials(sweep)} completed with a known cost."


def _calibrated(sweep: Sweep) -> str:
    fitting = [f"{c.compiler} fits batches up to {c.largest:g}" for c in sweep.calibrations if c.largest > 0]
    return ", ".join(fitting) or "nothing was calibrated either"


def _front(sweep: Sweep) -> str:
    first, last = (
        f"{each.setting} ({cost_text(sweep, each)}, {quality_name(sweep)} {score(each.quality)})"
        for each in (sweep.front[0], sweep.front[-1])
    )
    completed = sum(trial.kind in ("completed", "worse") for trial in sweep.trials)
    objectives = f"cost and {quality_name(sweep)}"
    return f"{len(sweep.front)} of {completed} settings are Pareto-optimal in {objectives}: from {first} to {last}."


def _confirmed(sweep: Sweep, best: Trial, ratio: Interval) -> str:
    contrast = sweep.contrast_of(best.setting)
    outcome = contrast.verdict.outcome if contrast else "inconclusive"
    is_better = ratio.low > 1 if sweep.spec.is_rate else outcome in ("cheaper", "cheaper, quality not shown")
    n = f"{ratio.n_arm}" if ratio.n_arm == ratio.n_baseline else f"{ratio.n_arm} and {ratio.n_baseline}"
    interval = f"(95 % interval {_interval(ratio)}, n = {n})" if ratio.is_informative else f"({TOO_FEW}, n = {n})"
    if is_better:
        doubt = f", {contrast.verdict.reason}" if contrast and outcome == "cheaper, quality not shown" else ""
        return f"{_achieves(sweep, best.setting, ratio.estimate)} {interval}{doubt}."
    reason = contrast.verdict.reason if contrast and not sweep.spec.is_rate else ""
    is_known = ratio.low < 1 <= ratio.high and outcome == "inconclusive"
    reason = f", {reason}" if reason and not is_known else ""
    shown = "is shown not to be" if ratio.low >= 1 and not sweep.spec.is_rate else "is not shown to be"
    better = "faster" if sweep.spec.is_rate else "cheaper"
    return (
        f"{_is_best(sweep, best)} but {shown} {better} than {sweep.base}: {change(ratio.estimate)} {interval}{reason}."
    )


def _unconfirmed(sweep: Sweep, best: Trial) -> str:
    contrast = sweep.contrast_of(best.setting)
    if contrast and contrast.verdict.outcome == "not cheaper":
        return f"{best.setting} is the best of {_trials(sweep)}, but not reliably: {contrast.verdict.reason}."
    compared = "" if sweep.spec.is_front else f". Without repeats of both, it is not compared with {sweep.base}"
    return f"{_is_best(sweep, best)}: {cost_text(sweep, best)}{_goal(sweep)}{compared}."


def _is_best(sweep: Sweep, best: Trial) -> str:
    return f"{best.setting}{comma_after(best.setting)} is the best of {_trials(sweep)}"


def _interval(ratio: Interval) -> str:
    """Return `25 to 36 %`, or an interval in words if it includes 1."""
    if (ratio.low < 1) != (ratio.high < 1):
        return change_interval(ratio)
    near, far = sorted((ratio.low, ratio.high), key=lambda value: abs(gain_percent(value)))
    return f"{percent(near)} to {percent(far)} %"


def _goal(sweep: Sweep) -> str:
    spec = sweep.spec
    if spec.target is not None:
        return f" to {spec.metric} {spec.target:g}"
    return f" with {_within(sweep)}" if spec.bound is not None else ""


def _achieves(sweep: Sweep, setting: Setting, ratio: float) -> str:
    """Return `inductor at batch 64, rate × 2, reaches eval_loss 0.45 for 31 % fewer billable seconds than ...`."""
    spec, name = sweep.spec, f"{setting}{comma_after(setting)}"
    than = f"{change(ratio)} {cost_noun(sweep)} than {sweep.base}"
    if spec.target is not None:
        return f"{name} reaches {spec.metric} {spec.target:g} for {than}"
    kept = f", with {_within(sweep)}" if spec.bound is not None else ""
    return f"{name} {'trains' if spec.is_rate else 'takes'} {than}{kept}"


def _within(sweep: Sweep) -> str:
    return f"{sweep.spec.metric} {'at least' if sweep.spec.higher_is_better else 'at most'} {sweep.spec.bound:g}"


def _trials(sweep: Sweep) -> str:
    return counted(len(sweep.trials), "trial")


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


def cost_noun(sweep: Sweep) -> str:
    """Return the quantity that the objective measures, such as `billable seconds`."""
    return NOUNS.get(sweep.spec.cost, sweep.spec.cost)


def cost_unit(sweep: Sweep) -> str:
    """Return the unit of the objective's cost."""
    return UNITS.get(sweep.spec.cost, "")


def cost_name(sweep: Sweep) -> str:
    """Return a label of the objective's cost with its target, such as `billable seconds to eval_loss 0.45`."""
    target = sweep.spec.target
    return f"{cost_noun(sweep)} to {quality_name(sweep)} {target:g}" if target is not None else cost_noun(sweep)


def cost_figure(sweep: Sweep, cost: float) -> str:
    """Return a cost as text, without its unit."""
    return money(cost) if sweep.spec.cost == "usd" else figure(cost)


def cost_text(sweep: Sweep, trial: Trial) -> str:
    """Return a trial's cost with its unit, such as `62.0 billable seconds`."""
    return f"{cost_figure(sweep, trial.mean_cost)} {cost_noun(sweep)}"


def quality_name(sweep: Sweep) -> str:
    """Return the metric of the quality, or `quality` if unknown."""
    return sweep.spec.metric or "quality"


def comma_after(setting: Setting) -> str:
    """Return the comma that must follow a setting whose name contains a comma; empty for other settings."""
    return "," if "," in str(setting) else ""
