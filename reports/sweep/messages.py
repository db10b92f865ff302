"""The sentences of a sweep's report: its answer, the certainty of it, the cost, the failures and why it ended."""

from __future__ import annotations

import math

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.comparison import Verdict
from reports.comparison.messages import cheaper, scaling_sentences, unlike_sentences, warning_sentences
from reports.model.numbers import TOO_FEW, change, change_interval, counted, figure, joined, money, percent, score
from reports.model.report import ShortAnswer
from reports.sweep.sweep import Sweep, factorial_arms
from reports.sweep.trials import Setting, Trial, setting_of

OUTCOMES = {
    "worse": "completed beyond the bound",
    "not reached": "without reaching the target",
    "pruned": "stopped early",
    "failed": "that failed",
    "stopped": "that a person stopped",
}


def headline(sweep: Sweep) -> str:
    return answer_of(sweep)[0]


def answer_of(sweep: Sweep) -> tuple[str, ShortAnswer]:
    """Return the answer in one sentence, and in a few words, such as `inductor at batch 64, 31 % cheaper`."""
    spec, best, trials = sweep.spec, sweep.best, counted(len(sweep.trials), "trial")
    if best is None:
        return _no_answer(sweep, trials), ShortAnswer("", "no answer")
    if spec.is_front and len(sweep.front) > 1:
        return _front(sweep), ShortAnswer("", f"{len(sweep.front)} Pareto-optimal settings")
    if best.setting == sweep.base:
        sentence = f"The starting setting, {sweep.base}, remains the best: {_cost_of(sweep, best)}."
        return sentence, ShortAnswer("", "nothing better")
    contrast, interval = sweep.contrast_of(best.setting), sweep.interval_of(best.setting)
    verdict = contrast.verdict if contrast else Verdict("inconclusive", "")
    if verdict.outcome == "not comparable":
        sentence = f"No verdict on {best.setting}, the best of {trials}: {verdict.reason}."
        return sentence, ShortAnswer("", "not comparable")
    is_best = f"{_named(best.setting)} is the best of {trials}"
    if interval:
        return _confirmed(sweep, best.setting, interval, verdict, is_best)
    if verdict.outcome == "not cheaper":
        sentence = f"{best.setting} is the best of {trials}, but not reliably: {verdict.reason}."
        return sentence, ShortAnswer(str(best.setting), ", not reliably")
    goal = ""
    if spec.target is not None:
        goal = f" to {spec.metric} {spec.target:g}"
    elif spec.bound is not None:
        goal = f" with {_within(sweep)}"
    compared = "" if spec.is_front else f". Without repeats of both, it is not compared with {sweep.base}"
    return f"{is_best}: {_cost_of(sweep, best)}{goal}{compared}.", ShortAnswer(str(best.setting), ", the best trial")


def _no_answer(sweep: Sweep, trials: str) -> str:
    spec, kinds = sweep.spec, [trial.kind for trial in sweep.trials]
    if not sweep.jobs:
        return "This sweep has no jobs."
    if not kinds:
        fitting = [f"{c.compiler} fits batches up to {c.largest:g}" for c in sweep.calibrations if c.largest > 0]
        return f"No trial yet: {', '.join(fitting) or 'nothing was calibrated either'}."
    if running := kinds.count("running"):
        verb = "is" if running == 1 else "are"
        return f"No answer yet: {running} of {trials} {verb} still running, and none has completed."
    if spec.target is not None and "not reached" in kinds:
        return f"No answer: none of {trials} reached {spec.metric} {spec.target:g}."
    if spec.bound is not None and "worse" in kinds:
        return f"No answer: every trial that completed is worse than {spec.metric} {spec.bound:g}."
    return f"No answer: none of {trials} completed with a known cost."


def _front(sweep: Sweep) -> str:
    name = sweep.spec.quality_name
    first, last = (
        f"{each.setting} ({_cost_of(sweep, each)}, {name} {score(each.quality)})"
        for each in (sweep.front[0], sweep.front[-1])
    )
    settings = f"{len(sweep.front)} of {sum(trial.kind in ('completed', 'worse') for trial in sweep.trials)} settings"
    return f"{settings} are Pareto-optimal in cost and {name}: from {first} to {last}."


def _confirmed(
    sweep: Sweep, setting: Setting, ratio: Interval, verdict: Verdict, is_best: str
) -> tuple[str, ShortAnswer]:
    """Return the answer with the interval of the repeats, or that they do not confirm the best trial."""
    spec, outcome, reason = sweep.spec, verdict.outcome, verdict.reason
    is_better = ratio.low > 1 if spec.is_rate else outcome in ("cheaper", "cheaper, quality not shown")
    n = f"{ratio.n_arm}" if ratio.n_arm == ratio.n_baseline else f"{ratio.n_arm} and {ratio.n_baseline}"
    interval = f"(95 % interval {_interval(ratio)}, n = {n})" if ratio.is_informative else f"({TOO_FEW}, n = {n})"
    if not is_better:
        is_known = ratio.low < 1 <= ratio.high and outcome == "inconclusive"
        why = f", {reason}" if reason and not spec.is_rate and not is_known else ""
        shown = "is shown not to be" if ratio.low >= 1 and not spec.is_rate else "is not shown to be"
        better = "faster" if spec.is_rate else "cheaper"
        sentence = f"{is_best} but {shown} {better} than {sweep.base}: {change(ratio.estimate)} {interval}{why}."
        is_refuted = outcome == "not cheaper" and not spec.is_rate
        return sentence, ShortAnswer("", "nothing cheaper" if is_refuted else "inconclusive")
    doubt = f", {reason}" if outcome == "cheaper, quality not shown" else ""
    short_answer = ShortAnswer("", "inconclusive") if doubt else cheaper(str(setting), ratio)
    verb = "takes"
    if spec.is_rate:
        verb, short_answer = "trains", ShortAnswer(str(setting), f", {percent(ratio.estimate)} % faster")
    elif spec.target is not None:
        verb = f"reaches {spec.metric} {spec.target:g} for"
    kept = f", with {_within(sweep)}" if spec.bound is not None else ""
    than = f"{change(ratio.estimate)} {spec.noun} than {sweep.base}"
    return f"{_named(setting)} {verb} {than}{kept} {interval}{doubt}.", short_answer


def _interval(ratio: Interval) -> str:
    """Return `25 to 36 %`, or an interval in words if it includes 1."""
    if (ratio.low < 1) != (ratio.high < 1):
        return change_interval(ratio)
    near, far = sorted((ratio.low, ratio.high), key=lambda value: abs(gain_percent(value)))
    return f"{percent(near)} to {percent(far)} %"


def _named(setting: Setting) -> str:
    """Return a setting as a subject: a name that contains a comma is followed by one."""
    return f"{setting}{',' if ',' in str(setting) else ''}"


def _within(sweep: Sweep) -> str:
    return f"{sweep.spec.metric} {'at least' if sweep.spec.higher_is_better else 'at most'} {sweep.spec.bound:g}"


def _cost_of(sweep: Sweep, trial: Trial) -> str:
    """Return a trial's cost with its unit, such as `62.0 billable seconds`."""
    return f"{sweep.spec.cost_text(trial.mean_cost)} {sweep.spec.noun}"


def sentences(sweep: Sweep) -> list[str]:
    arms = sweep.confirmation.arms if sweep.confirmation else ()
    return [
        *(sentence for arm in arms for sentence in warning_sentences(arm)),
        *(_certainty(sweep, sweep.best) if sweep.best and not sweep.spec.is_front else []),
        *_effects(sweep),
        *scaling_sentences(arms),
        *_cost(sweep),
        *_failures(sweep),
        *_savings(sweep),
        *_end(sweep),
    ]


def _effects(sweep: Sweep) -> list[str]:
    """Return the effects on the cost: of the compiler alone, of the batch alone, and of both."""
    base, parts = sweep.base, []
    for setting in factorial_arms(sweep):
        ratio = sweep.interval_of(setting)
        if ratio is None:
            continue
        if setting.point == base.point:
            factors = "the compiler alone"
        elif setting.compiler != base.compiler:
            factors = "both"
        else:
            changed = {"batch": setting.batch_size != base.batch_size, "rate": setting.multiplier != base.multiplier}
            factors = f"the {' and the '.join(name for name, differs in changed.items() if differs)} alone"
        parts.append(f"{factors} {change(ratio.estimate)}")
    return [f"Against {base}: {'; '.join(parts)} {sweep.spec.noun}."] if parts else []


def _certainty(sweep: Sweep, best: Trial) -> list[str]:
    n, finalists = len(sweep.trials), sum(trial.second_cost is not None for trial in sweep.trials)
    remarks = []
    if finalists:
        chose = "both trainings together chose the winner"
        remarks.append(f"The {finalists} best settings trained a second time with another seed; {chose}.")
    if sweep.arm_of(best.setting) is None:
        caveat = " The best of many trials is partly the luckiest one: only repeats show its cost." if n > 1 else ""
        return [*remarks, f"The best setting was not repeated.{caveat}"]
    if n > 1 and sweep.interval_of(best.setting) is not None:
        trials = f"the {n} trials from which this setting was chosen"
        remarks.append(f"The interval comes from separate repeats, not from {trials}.")
    if sweep.confirmation and not sweep.spec.is_rate:
        remarks += unlike_sentences(sweep.confirmation)
    return [*remarks, *_better_repeats(sweep, best)]


def _better_repeats(sweep: Sweep, best: Trial) -> list[str]:
    """Return a sentence about a setting that beat the best trial's setting in the repeats; empty if none did."""
    spec, own = sweep.spec, sweep.repeated_cost(best.setting)
    others = {setting_of(arm.jobs[0]) for arm in (sweep.confirmation.arms if sweep.confirmation else ())}
    costs = {setting: cost for setting in others if math.isfinite(cost := sweep.repeated_cost(setting))}
    if not costs:
        return []
    first = (max if spec.is_rate else min)(costs, key=lambda setting: (costs[setting], str(setting)))
    least = f"{spec.cost_text(costs[first])} {spec.unit}"
    if math.isnan(own):
        return [f"The best setting that succeeded in every repeat is {first}: {least}."]
    if costs[first] == own or first in (best.setting, sweep.base):
        return []
    return [f"In the repeats, {first} was better: {least} against {spec.cost_text(own)} {spec.unit}."]


def _cost(sweep: Sweep) -> list[str]:
    if not sweep.jobs:
        return []
    total = sweep.cost_by_role()[-1]
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
    failures: dict[str, str] = {}
    for trial in sweep.trials:
        if trial.kind == "failed":
            failures.setdefault(trial.end.partition(": ")[2] or "an unknown error", trial.failure.rstrip("."))
    return [f"Failed with {name}{f': {message}' if message else ''}." for name, message in failures.items()]


def _savings(sweep: Sweep) -> list[str]:
    best = sweep.best
    is_in_seconds = sweep.spec.cost == "billable_seconds" and not sweep.spec.is_front
    contrast = sweep.contrast_of(best.setting) if best else None
    is_refuted = contrast is not None and contrast.verdict.outcome != "cheaper"
    if is_in_seconds and sweep.saving > 0 and not is_refuted:
        trainings = math.ceil(sweep.cost_by_role()[-1].seconds / sweep.saving)
        return [f"The sweep pays off after {counted(trainings, 'training')} with its best setting."]
    return []


def _end(sweep: Sweep) -> list[str]:
    compilers: dict[str, list[str]] = {}
    for compiler, reason in sweep.spec.stopped_because.items():
        compilers.setdefault(reason.strip().rstrip("."), []).append(compiler)
    if len(compilers) == 1:
        return [f"The search has ended: {reason}." for reason in compilers]
    return [f"The search has ended for {joined(names)}: {reason}." for reason, names in compilers.items()]
