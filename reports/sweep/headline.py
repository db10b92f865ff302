"""The answer of a sweep in one sentence."""

from __future__ import annotations

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.model.numbers import TOO_FEW, change, change_interval, percent, score
from reports.model.wording import counted
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Setting, Trial
from reports.sweep.units import comma_after, cost_noun, cost_text, quality_name


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
