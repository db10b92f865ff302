"""What a sweep tells, in plain words: the same on the page, in the terminal and in MLflow."""

from __future__ import annotations

import math

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.messages import NONE, change, change_interval, figure, percent, score
from reports.sweep.factorial import square, which
from reports.sweep.grid_cost import grid_of
from reports.sweep.sweep import Spent, Sweep
from reports.sweep.trials import Setting, Trial, setting_of

NOUNS = {"billable_seconds": "billable seconds", "usd": "dollars", "steady_samples_per_second": "samples/s"}
UNITS = {"billable_seconds": "s", "usd": "USD", "steady_samples_per_second": "samples/s"}
_BILLS = {
    "calibration": "calibrations",
    "baseline": "the base setting",
    "trial": "trials",
    "confirmation": "repeats",
    "other": "others",
    "all": "all",
}
_ENDED = {
    "worse": "completed beyond the bound",
    "not reached": "without reaching the target",
    "pruned": "stopped early",
    "failed": "that failed",
}
CAVEAT = "The best of many trials has had luck as well: what it costs is what its repeats say."


def headline(sweep: Sweep) -> str:
    """Return the answer in one sentence."""
    best = sweep.best
    if best is None:
        return _no_answer(sweep)
    if sweep.asked.is_front and len(sweep.front) > 1:
        return _front(sweep)
    contrast = sweep.contrast_of(best.setting)
    if best.setting == sweep.base:
        return f"Nothing that was tried is better than {sweep.base}, the setting to begin with: {_cost(sweep, best)}."
    if contrast and contrast.verdict.outcome == "not comparable":
        return f"No verdict on {best.setting}, the best of {_trials(sweep)}: {contrast.verdict.reason}."
    interval = interval_of(sweep, best)
    return _confirmed(sweep, best, interval) if interval else _unconfirmed(sweep, best)


def sentences(sweep: Sweep) -> list[str]:
    """Return what else this sweep tells, a sentence each."""
    return [
        *_doubts(sweep),
        *_how_sure(sweep),
        *effects(sweep),
        *_spend(sweep),
        *_failures(sweep),
        *_saved(sweep),
        *_ends(sweep),
    ]


def effects(sweep: Sweep) -> list[str]:
    """Return what the compiler alone, the batch alone and both do to the cost."""
    cells = [cell for cell in square(sweep) if cell.ratio]
    parts = [f"{which(cell, sweep.base)} {change(cell.ratio.estimate)}" for cell in cells if cell.ratio]
    return [f"Against {sweep.base}: {'; '.join(parts)} {NOUNS.get(sweep.asked.cost, '')}."] if parts else []


def quality_name(sweep: Sweep) -> str:
    """Return the quality's metric, or what stands for it."""
    return sweep.asked.metric or "quality"


def cost_name(sweep: Sweep) -> str:
    """Return the objective's cost with the target, such as `billable seconds to eval_loss 0.45`."""
    noun, target = NOUNS.get(sweep.asked.cost, sweep.asked.cost), sweep.asked.target
    return f"{noun} to {quality_name(sweep)} {target:g}" if target is not None else noun


def cost_figure(sweep: Sweep, cost: float) -> str:
    """Return a cost as a number."""
    return money(cost) if sweep.asked.cost == "usd" else figure(cost)


def money(usd: float) -> str:
    """Return dollars."""
    return NONE if math.isnan(usd) else f"{usd:.4f}" if usd < 0.1 else f"{usd:,.2f}"


def spent_label(spent: Spent) -> str:
    """Return whose bill it is."""
    return _BILLS.get(spent.what) or f"\u2003of them {_ENDED.get(spent.what, spent.what).removeprefix('that ')}"


def interval_words(ratio: Interval) -> str:
    """Return `25 to 36 %`, or both directions in words where the interval holds no change."""
    if (ratio.low < 1) != (ratio.high < 1):
        return change_interval(ratio)
    near, far = sorted((ratio.low, ratio.high), key=lambda value: abs(gain_percent(value)))
    return f"{percent(near)} to {percent(far)} %"


def _no_answer(sweep: Sweep) -> str:
    asked, trials = sweep.asked, sweep.trials
    if not sweep.jobs:
        return "This sweep holds no jobs."
    if not trials:
        return f"No trial yet: {_calibrated(sweep)}."
    running = sum(trial.kind == "running" for trial in trials)
    if running:
        return f"No answer yet: {running} of {_trials(sweep)} still {_runs(running)}, and none has come to its end."
    if asked.target is not None and any(trial.kind == "not reached" for trial in trials):
        return f"No answer: none of {_trials(sweep)} reached {asked.metric} {asked.target:g}."
    if asked.bound is not None and any(trial.kind == "worse" for trial in trials):
        return f"No answer: every trial that completed is worse than {asked.metric} {asked.bound:g}."
    return f"No answer: none of {_trials(sweep)} came to its end."


def _calibrated(sweep: Sweep) -> str:
    told = [f"{c.compiler} fits batches up to {c.largest:g}" for c in sweep.calibrations if c.largest > 0]
    return ", ".join(told) or "nothing was calibrated either"


def _front(sweep: Sweep) -> str:
    first, last = sweep.front[0], sweep.front[-1]
    ends = [
        f"{each.setting} ({_cost(sweep, each)}, {quality_name(sweep)} {score(each.quality)})" for each in (first, last)
    ]
    n, ended = len(sweep.front), sum(t.kind in ("completed", "worse") for t in sweep.trials)
    both = f"cost and {quality_name(sweep)}"
    return f"{n} of {ended} settings are beaten by none in both {both}: from {ends[0]} to {ends[1]}."


def _confirmed(sweep: Sweep, best: Trial, ratio: Interval) -> str:
    contrast = sweep.contrast_of(best.setting)
    outcome = contrast.verdict.outcome if contrast else "inconclusive"
    is_better = ratio.low > 1 if sweep.asked.is_rate else outcome == "cheaper"
    n = f"{ratio.n_arm}" if ratio.n_arm == ratio.n_baseline else f"{ratio.n_arm} and {ratio.n_baseline}"
    interval = f"(95 % interval {interval_words(ratio)}, n = {n})"
    if is_better:
        return f"{_achieves(sweep, best.setting, ratio.estimate)} {interval}."
    reason = contrast.verdict.reason if contrast and not sweep.asked.is_rate else ""
    reason = f", {reason}" if reason and not (ratio.low < 1 <= ratio.high) else ""
    shown = "is shown not to be" if ratio.low >= 1 and not sweep.asked.is_rate else "is not shown to be"
    better = "faster" if sweep.asked.is_rate else "cheaper"
    return (
        f"{best.setting}{_comma(best.setting)} is the best of {_trials(sweep)} but {shown} {better} than {sweep.base}: "
        f"{change(ratio.estimate)} {interval}{reason}."
    )


def _unconfirmed(sweep: Sweep, best: Trial) -> str:
    contrast = sweep.contrast_of(best.setting)
    if contrast and contrast.verdict.outcome == "not cheaper":
        return f"{best.setting} is the best of {_trials(sweep)}, but not reliably: {contrast.verdict.reason}."
    if math.isfinite(sweep.base_cost):
        told = _achieves(sweep, best.setting, best.cost / sweep.base_cost)
        return f"{told}, as far as one job of each tells."
    goal = _goal(sweep)
    return f"{best.setting}{_comma(best.setting)} is the best of {_trials(sweep)}: {_cost(sweep, best)}{goal}."


def _goal(sweep: Sweep) -> str:
    asked = sweep.asked
    if asked.target is not None:
        return f" to {asked.metric} {asked.target:g}"
    return f" with {_within(sweep)}" if asked.bound is not None else ""


def _achieves(sweep: Sweep, setting: Setting, ratio: float) -> str:
    """Return `inductor at batch 64, rate × 2, reaches eval_loss 0.45 for 31 % fewer billable seconds than ...`."""
    asked, name = sweep.asked, f"{setting}{_comma(setting)}"
    than = f"{change(ratio)} {NOUNS.get(asked.cost, asked.cost)} than {sweep.base}"
    if asked.target is not None:
        return f"{name} reaches {asked.metric} {asked.target:g} for {than}"
    kept = f", with {_within(sweep)}" if asked.bound is not None else ""
    return f"{name} {'trains' if asked.is_rate else 'takes'} {than}{kept}"


def _within(sweep: Sweep) -> str:
    return f"{sweep.asked.metric} {'at least' if sweep.asked.higher_is_better else 'at most'} {sweep.asked.bound:g}"


def interval_of(sweep: Sweep, trial: Trial) -> Interval | None:
    """Return the trial's repeats over the base setting's: as the verdict has it, or of the rates."""
    contrast = sweep.contrast_of(trial.setting)
    if contrast is None:
        return None
    return contrast.speed_up if sweep.asked.is_rate else contrast.verdict.ratio


def _doubts(sweep: Sweep) -> list[str]:
    arms = sweep.confirmation.arms if sweep.confirmation else ()
    return [f"“{arm.label}” is not what it says: {doubt}." for arm in arms for doubt in arm.compiler_doubts]


def _how_sure(sweep: Sweep) -> list[str]:
    if sweep.best is None or sweep.asked.is_front:
        return []
    n, has_interval = len(sweep.trials), interval_of(sweep, sweep.best) is not None
    if sweep.arm_of(sweep.best.setting) is None:
        return [f"It was not repeated. {CAVEAT}" if n > 1 else "It was not repeated."]
    told = f"The interval is of repeats made for it, not of the {n} trials that it was chosen from."
    return [*([told] if n > 1 and has_interval else []), *_cheaper_still(sweep, sweep.best)]


def _cheaper_still(sweep: Sweep, best: Trial) -> list[str]:
    """Return which repeated setting came out better than the one that the trials chose."""
    mine = sweep.repeated_cost(best.setting)
    others = {setting_of(arm.jobs[0]) for arm in (sweep.confirmation.arms if sweep.confirmation else ())}
    told = {setting: cost for setting in others if math.isfinite(cost := sweep.repeated_cost(setting))}
    if not told:
        return []
    first = (max if sweep.asked.is_rate else min)(told, key=lambda setting: (told[setting], str(setting)))
    unit = UNITS.get(sweep.asked.cost, sweep.asked.cost)
    if math.isnan(mine):
        return [f"The best that held in every repeat is {first}: {cost_figure(sweep, told[first])} {unit}."]
    if told[first] == mine or first in (best.setting, sweep.base):
        return []
    costs = f"{cost_figure(sweep, told[first])} {unit} against {cost_figure(sweep, mine)} {unit}"
    return [f"In the repeats {first} came out better: {costs}."]


def _spend(sweep: Sweep) -> list[str]:
    if not sweep.jobs:
        return []
    *_, everything = sweep.spent()
    dollars = f" and {money(everything.usd)} USD" if everything.usd > 0 else ""
    wasted = [each for each in sweep.spent_on_trials() if each.what in ("not reached", "pruned", "failed")]
    told = [
        f"{figure(each.seconds)} in {each.jobs} trial{'' if each.jobs == 1 else 's'} {_ENDED.get(each.what, each.what)}"
        for each in wasted
    ]
    jobs = f"{everything.jobs} job{'' if everything.jobs == 1 else 's'}"
    of_them = f", of them {_and(told)}" if told else ""
    return [f"The sweep's {jobs} took {figure(everything.seconds)} billable instance seconds{dollars} in all{of_them}."]


def _failures(sweep: Sweep) -> list[str]:
    """Return why trials failed, each class once with the message of its first."""
    failed = {trial.end.partition(": ")[2] or "no class": trial.failure for trial in sweep.failed[::-1]}
    messages = {name: f": {message.rstrip('.')}" if message else "" for name, message in failed.items()}
    return [f"Failed with {name}{message}." for name, message in messages.items()]


def _saved(sweep: Sweep) -> list[str]:
    told, grid, best = [], grid_of(sweep), sweep.best
    if best and grid and grid.seconds > 0 and sweep.search_seconds > 0:
        share, were = sweep.search_seconds / grid.seconds, "was" if grid.trained == 1 else "were"
        how = "of the" if share < 1 else "of what the"
        told.append(
            f"Until its choice it took {figure(100 * share)} % {how} {figure(grid.seconds)} s that all {grid.settings} "
            f"settings are predicted to take ({grid.trained} of them {were} trained to their end)."
        )
    saving = sweep.base_cost - sweep.cost_of(best) if best else math.nan
    if best and _is_earned_in_seconds(sweep) and saving > 0 and _is_shown(sweep, best):
        trainings = math.ceil(sweep.spent()[-1].seconds / saving)
        told.append(f"It is earned back after {trainings:,} training{'' if trainings == 1 else 's'} with its choice.")
    return told


def _is_earned_in_seconds(sweep: Sweep) -> bool:
    return sweep.asked.cost == "billable_seconds" and not sweep.asked.is_front


def _is_shown(sweep: Sweep, best: Trial) -> bool:
    """Tell whether repeats, where there are any, do not take the trial's word back."""
    contrast = sweep.contrast_of(best.setting)
    return contrast is None or contrast.verdict.outcome == "cheaper"


def _ends(sweep: Sweep) -> list[str]:
    told: dict[str, list[str]] = {}
    for compiler, text in sweep.asked.stopped_because.items():
        told.setdefault(text.strip().rstrip("."), []).append(compiler)
    if len(told) == 1:
        return [f"The search has ended: {text}." for text in told]
    return [f"The search has ended for {_and(names)}: {text}." for text, names in told.items()]


def _cost(sweep: Sweep, trial: Trial) -> str:
    return f"{cost_figure(sweep, trial.cost)} {NOUNS.get(sweep.asked.cost, sweep.asked.cost)}"


def _trials(sweep: Sweep) -> str:
    n = len(sweep.trials)
    return f"{n} trials" if n != 1 else "1 trial"


def _runs(n: int) -> str:
    return "runs" if n == 1 else "run"


def _comma(setting: Setting) -> str:
    return "," if "," in str(setting) else ""


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
