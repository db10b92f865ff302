"""The sentences of a sweep's report: its answer, the certainty of it, the cost, the failures and why it ended."""

from __future__ import annotations

import math

from judging.intervals import Interval
from reports.comparison.comparison import Verdict
from reports.comparison.messages import (
    bill_sentences,
    cache_phrase,
    cheaper,
    data_sentences,
    scaling_sentences,
    unlike_sentences,
    warning_sentences,
)
from reports.model.numbers import (
    TOO_FEW,
    change,
    change_interval,
    counted,
    figure,
    joined,
    money,
    percent,
    score,
    short,
)
from reports.sweep.sweep import Sweep, factorial_settings
from reports.sweep.trials import Setting, Trial, setting_of

_NOT_REPEATED = "both need repeats, because the best of many trials is partly the luckiest one"
OUTCOMES = {
    "worse": "completed beyond the bound",
    "not reached": "without reaching the target",
    "pruned": "stopped early",
    "failed": "that failed",
    "stopped": "that a person stopped",
}


def headline(sweep: Sweep) -> str:
    return answer_of(sweep)[0]


def answer_of(sweep: Sweep) -> tuple[str, str, list[str]]:
    """Return a headline, which has figures of repeats alone, the same in a few words, and the lines below it."""
    spec, best, trials = sweep.spec, sweep.best, counted(len(sweep.trials), "trial")
    if best is None:
        return _no_answer(sweep, trials), "no answer", []
    if spec.is_front and len(sweep.front) > 1:
        settings = f"{len(sweep.front)} Pareto-optimal settings"
        return f"There are {settings} in cost and {spec.quality_name}.", settings, [_front(sweep)]
    repeated = sweep.repeated_cost(best.setting)
    by = "The trainings that chose it" if math.isnan(repeated) else "Its repeats"
    cost = f"{by}: {spec.cost_text(sweep.cost_of(best))} {spec.cost_name}."
    if best.setting == sweep.base:
        sentence = f"The starting setting, {short(str(sweep.base))}, remains the best."
        return sentence, "nothing better", [cost, *_between_compilers(sweep)]
    contrast, interval = sweep.contrast_of(best.setting), sweep.interval_of(best.setting)
    verdict = contrast.verdict if contrast else Verdict("inconclusive", _NOT_REPEATED)
    if spec.is_rate and verdict.outcome != "not comparable":
        verdict = Verdict("inconclusive", verdict.reason)  # the verdict is about the cost, and the rates decide
    is_best = f"{_named(best.setting)} is the best {f'of {trials}' if best is sweep.winner else 'by its repeats'}"
    if verdict.outcome == "not comparable":
        sentence = f"No verdict on the best of {trials}: its repeats are not comparable."
        return sentence, "not comparable", [f"{is_best}: {verdict.reason}."]
    if interval:
        sentence, short_answer, line = _confirmed(sweep, best.setting, interval, verdict, is_best)
        return sentence, short_answer, [line, *bill_sentences(verdict), *_between_compilers(sweep)]
    is_unreliable = verdict.outcome == "not cheaper"
    lines = [f"It is not compared with {sweep.base}: {verdict.reason}."] if not spec.is_front else []
    short_answer = f"{short(str(best.setting))}, {'not reliably' if is_unreliable else 'the best trial'}"
    but = "but not reliably" if is_unreliable else "without a verdict"
    sentence = f"{short(str(best.setting))} is the best of {trials}, {but}."
    return sentence, short_answer, [cost, *lines, *_between_compilers(sweep)]


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
    return f"{settings} are Pareto-optimal, by one training each: from {first} to {last}."


def _confirmed(sweep: Sweep, setting: Setting, ratio: Interval, verdict: Verdict, is_best: str) -> tuple[str, str, str]:
    """Return the answer and the line with the interval of the repeats, or that they do not confirm the best trial."""
    spec, outcome, reason = sweep.spec, verdict.outcome, verdict.reason
    name, base, than = _named(setting), short(str(sweep.base)), f"than {sweep.base}{cache_phrase(verdict)}"
    is_better = ratio.low > 1 if spec.is_rate else outcome in ("cheaper", "cheaper, quality not shown")
    if not is_better:
        is_known = ratio.low < 1 <= ratio.high and outcome == "inconclusive"
        why = f", {reason}" if reason and not spec.is_rate and not is_known else ""
        shown = "is shown not to be" if ratio.low >= 1 and not spec.is_rate else "is not shown to be"
        better = "faster" if spec.is_rate else "cheaper"
        line = f"{is_best} but {shown} {better} {than}: {change(ratio.estimate)} {_in_brackets(ratio)}{why}."
        is_refuted = outcome == "not cheaper" and not spec.is_rate
        short_answer = "nothing cheaper" if is_refuted else "inconclusive"
        return f"{short(name)} {shown} {better} than {base}.", short_answer, line
    doubt = f", {reason}" if outcome == "cheaper, quality not shown" else ""
    short_answer = "inconclusive" if doubt else cheaper(str(setting), ratio)
    verb = "takes"
    if spec.is_rate:
        verb, short_answer = "trains", f"{short(str(setting))}, {percent(ratio.estimate)} % faster"
    elif spec.target is not None:
        verb = f"reaches {spec.metric} {spec.target:g} for"
    kept = f", with {_within(sweep)}" if spec.bound is not None else ""
    line = f"{name} {verb} {change(ratio.estimate)} {spec.noun} {than}{kept} {_in_brackets(ratio)}{doubt}."
    differs = f"{'is' if spec.is_rate else 'costs'} {percent(ratio.estimate)} % {'faster' if spec.is_rate else 'less'}"
    sentence = f"{short(name)} {differs} than {base}{', quality not shown' if doubt else ''}."
    return sentence, short_answer, line


def _between_compilers(sweep: Sweep) -> list[str]:
    """Return the verdicts on the winner of the trials and the best setting of each other compiler."""
    lines = []
    for other, contrast in sweep.pairs.items():
        arm, ratio, reason = setting_of(contrast.arm.jobs[0]), sweep.ratio_of(contrast), contrast.verdict.reason
        against = sweep.winner.setting if sweep.winner and arm == other else other
        words = ("no verdict", *(("faster", "slower") if sweep.spec.is_rate else ("cheaper", "dearer")))
        figures = [f"{change(ratio.estimate)} {sweep.spec.noun} {_in_brackets(ratio)}"] if ratio else []
        reasons = [reason] if reason and not sweep.spec.is_rate else []
        verdict = ", ".join([words[sweep.shown(contrast)], *figures, *reasons])
        lines.append(f"{arm} against {against}, the best of each compiler: {verdict}.")
    return lines


def _in_brackets(ratio: Interval) -> str:
    n = f"{ratio.n_arm}" if ratio.n_arm == ratio.n_baseline else f"{ratio.n_arm} and {ratio.n_baseline}"
    return f"(95 % interval {change_interval(ratio)}, n = {n})" if ratio.is_informative else f"({TOO_FEW}, n = {n})"


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
        *data_sentences(sweep.jobs),
        *_end(sweep),
    ]


def _effects(sweep: Sweep) -> list[str]:
    """Return the effects on the cost, with their intervals: of the compiler alone, of the batch alone, and of both."""
    base, parts = sweep.base, []
    for setting in factorial_settings(sweep):
        ratio = sweep.interval_of(setting)
        if ratio is None:
            continue
        if setting.point == base.point:
            factors = "the compiler alone"
        elif setting.compiler != base.compiler:
            factors = "both"
        else:
            changed = {"batch": setting.batch_size != base.batch_size, "rate": setting.rate != base.rate}
            changed |= {"other hyperparameters": setting.hyperparameters != base.hyperparameters}
            factors = f"the {' and the '.join(name for name, differs in changed.items() if differs)} alone"
        parts.append(f"{factors} {change(ratio.estimate)} ({change_interval(ratio)})")
    return [f"Change in {sweep.spec.noun} against {base}: {'; '.join(parts)}."] if parts else []


def _certainty(sweep: Sweep, best: Trial) -> list[str]:
    finalists = sum(trial.second_cost is not None for trial in sweep.trials)
    chose = "trained a second time with another seed; both trainings together chose the winner."
    unlike = unlike_sentences(sweep.confirmation) if sweep.confirmation and not sweep.spec.is_rate else []
    return [*([f"The {finalists} best settings {chose}"] if finalists else []), *unlike, *_most_reliable(sweep, best)]


def _most_reliable(sweep: Sweep, best: Trial) -> list[str]:
    """Return the cheapest setting that succeeded in every repeat, if the best one did not; else empty."""
    spec = sweep.spec
    others = {setting_of(arm.jobs[0]) for arm in (sweep.confirmation.arms if sweep.confirmation else ())}
    costs = {setting: cost for setting in others if math.isfinite(cost := sweep.repeated_cost(setting))}
    if not costs or math.isfinite(sweep.repeated_cost(best.setting)):
        return []
    first = (max if spec.is_rate else min)(costs, key=lambda setting: (costs[setting], str(setting)))
    least = f"{spec.cost_text(costs[first])} {spec.unit}"
    return [f"The best setting that succeeded in every repeat is {first}: {least}."]


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
    jobs = counted(total.jobs, "job")
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
