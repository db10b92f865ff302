"""Numbers and verdicts in plain words, the same on the page, in the terminal and in MLflow."""

from __future__ import annotations

import math

from judging.break_even import BreakEven
from judging.intervals import Interval
from judging.quality import Quality
from judging.summaries import gain_percent
from reports.comparison.arms import Arm, Job
from reports.comparison.comparison import Comparison, Contrast, extra_seconds
from reports.comparison.equal_work import PAID, currency, is_other_machine, is_priced_alike
from reports.comparison.text import short
from reports.comparison.verdict import Verdict
from training.contract.failures import brief

NONE = "–"


def figure(value: float | None) -> str:
    """Return a number to three significant digits, thousands separated: 0.0123, 4.56, 78.9, 12,300."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def times(ratio: float) -> str:
    """Return how many times as much, to hundredths so that those of one sentence compare: 0.60, 1.20; 12.3, 0.0123."""
    return figure(ratio) if ratio >= 10 or ratio < 0.095 else f"{ratio:.2f}"


def score(value: float | None) -> str:
    """Return a loss or a score to three decimals."""
    return f"{value:.3f}" if value is not None and math.isfinite(value) else NONE


def rate(value: float) -> str:
    """Return a learning rate: 0.00005 -> 5e-5."""
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    if not exponent and 0 < abs(value) < 0.01:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def signed(value: float) -> str:
    """Return a difference of scores with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def signed_percent(ratio: float) -> str:
    """Return a ratio as a signed change: 1.25 -> +25 %."""
    gain = gain_percent(ratio)
    return f"{gain:+,.{_decimals(gain)}f} %".replace("-", "−")


def change(ratio: float) -> str:
    """Return a ratio as a change in words: 0.8 -> `20 % fewer`."""
    return f"{percent(ratio)} % {_direction(ratio)}"


def change_interval(ratio: Interval) -> str:
    """Return the interval in words: `12 % to 24 % fewer`, or `3 % fewer to 5 % more` across no change."""
    low, high = ratio.low, ratio.high
    if _direction(low) != _direction(high):
        return f"{change(low)} to {change(high)}"
    near, far = sorted((low, high), key=lambda value: abs(value - 1))
    return f"{percent(near)} % to {change(far)}"


def headline(comparison: Comparison) -> str:
    """Return the answer in one sentence."""
    baseline, contrasts = comparison.baseline, comparison.contrasts
    if baseline is None:
        return "This group holds no jobs."
    if not any(arm.succeeded for arm in comparison.arms):
        n = len(comparison.jobs)
        return f"No verdict: none of the {n} jobs succeeded." if n > 1 else "No verdict: the only job did not succeed."
    if not contrasts:
        paid = baseline.summary(PAID)
        return f"“{baseline.label}” took {figure(paid.median) if paid else 'an unknown number of'} billable seconds."
    if (best := comparison.best) and best.verdict.ratio:
        fewer = change(best.verdict.ratio.estimate)
        return f"“{best.arm.label}” is cheaper: {fewer} {noun(best.verdict)} than “{baseline.label}”."
    outcomes = {contrast.verdict.outcome for contrast in contrasts}
    if outcomes == {"not comparable"} and any(arm.compiler_doubts for arm in comparison.arms):
        return "No verdict: the compiler did not do what the settings say."
    if outcomes == {"not comparable"}:
        return "No verdict: the settings did not do the same work."
    if outcomes == {"not cheaper"}:
        return f"No setting is cheaper than “{baseline.label}”."
    return f"No setting is shown to be cheaper than “{baseline.label}”."


def verdict_sentence(contrast: Contrast, baseline: Arm) -> str:
    """Return what the repeats say of one arm."""
    verdict, ratio = contrast.verdict, contrast.verdict.ratio
    if ratio is None:
        return f"{verdict.reason[:1].upper()}{verdict.reason[1:]}."
    told = (
        f"{change(ratio.estimate)} {noun(verdict)} than “{baseline.label}” (95 % interval: "
        f"{change_interval(ratio)}; {ratio.n_arm} repeats against {ratio.n_baseline})"
    )
    return f"{told}, {verdict.reason}." if verdict.reason else f"{told}."


def contrast_sentences(contrast: Contrast, baseline: Arm) -> list[str]:
    """Return all that there is to say of one arm against the baseline, the verdict's sentence first."""
    quality = contrast.verdict.quality
    told = [verdict_sentence(contrast, baseline), *despite_sentences(contrast.verdict)]
    told += time_sentences(contrast.arm, baseline)
    told += [quality_sentence(quality)] if quality else []
    told += cache_sentences(contrast.arm)
    evens = [break_even_sentence(state, point, baseline) for state, point in contrast.break_evens.items()]
    return told + [f"Break-even: {sentence[:1].lower()}{sentence[1:]}" for sentence in evens]


def despite_sentences(verdict: Verdict) -> list[str]:
    """Return in what the work of two arms differs that are compared all the same, or how to have them compared."""
    if verdict.despite:
        return [f"Compared as asked, although {' and '.join(verdict.despite)}."]
    if verdict.allowable:
        return [f"`report` with allow={','.join(verdict.allowable)} compares them all the same, and says so."]
    return []


def noun(verdict: Verdict) -> str:
    """Return what there are more or fewer of: `billable seconds`, or `billable seconds to eval_loss 0.45`."""
    return f"{verdict.currency.noun} to {verdict.target}" if verdict.target else verdict.currency.noun


def time_sentences(arm: Arm, baseline: Arm) -> list[str]:
    """Return how long an arm on other machines takes, and what that costs: a shorter time may cost more."""
    mine, others = (side.summary("cost_billable_seconds") for side in (arm, baseline))
    if not is_other_machine(arm, baseline) or not mine or not others or others.median <= 0:
        return []
    as_long, spelled = times(mine.median / others.median), " against ".join(durations(mine.median, others.median))
    told = f"It takes {as_long} times as long: {spelled}"
    paid = [side.summary(currency(arm, baseline).column) for side in (arm, baseline)]
    if is_priced_alike(arm, baseline) and paid[0] and paid[1] and paid[1].median > 0:
        told += f", at {times(paid[0].median / paid[1].median)} times the cost"
    return [f"{told}."]


def durations(*seconds: float) -> list[str]:
    """Return times in the one unit that people use for the shortest: 41 s, 24 min, 6.5 h."""
    shortest = min(seconds)
    unit, name = (1, "s") if shortest < 600 else (60, "min") if shortest < 7200 else (3600, "h")
    return [f"{figure(each / unit)} {name}" for each in seconds]


def failure_sentences(arm: Arm) -> list[str]:
    """Return why jobs of an arm failed, each class once with the message of its first."""
    by_class: dict[str, list[Job]] = {}
    for job in arm.failed:
        by_class.setdefault(job.text.get("failure_class") or "", []).append(job)
    told = []
    for name, jobs in by_class.items():
        message = short(brief(jobs[0].text.get("failure_message") or ""), 160).rstrip(".")
        why = ", ".join(filter(None, (name, message)))
        n = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
        told.append(f"{n} of “{arm.label}” failed{f': {why}' if why else ''}.")
    return told


def spot_sentences(arm: Arm) -> list[str]:
    """Return what spare capacity saved an arm's jobs, and how often it was taken back."""
    saved, cuts = arm.summary("cost_spot_savings_percent"), arm.values("cost_spot_interruptions")
    if saved is None:
        return []
    n = int(sum(cuts))
    taken = f"taken back {n} time{'' if n == 1 else 's'} in {len(arm.headline)} jobs" if n else "never taken back"
    return [f"On spot “{arm.label}” was billed {figure(saved.median)} % less than it trained, and was {taken}."]


def quality_sentence(quality: Quality) -> str:
    """Return the arm's quality beside the baseline's."""
    name = f"{quality.measure.label[:1].upper()}{quality.measure.label[1:]}"
    told = f"{name} {score(quality.arm)} against {score(quality.baseline)}"
    if quality.difference is None:
        return f"{told}."
    d = quality.difference
    return f"{told} (difference {signed(d.estimate)}, 95 % interval {signed(d.low)} to {signed(d.high)})."


def break_even_sentence(state: str, point: BreakEven, baseline: Arm) -> str:
    """Return where an arm that starts with a compile cache in `state` has earned its start back."""
    start = "" if state == "off" else f"With a {state} compile cache "
    told = {
        "at": f"ahead of “{baseline.label}” after {figure(point.samples)} samples, {_minutes(point.minutes)} in",
        "already ahead": f"ahead of “{baseline.label}” from the start: compile and warm-up take no longer",
        "never": f"never ahead of “{baseline.label}”: the steady rate is lower and the start is dearer",
        "not determined": "not determined: the steady gain is within the noise or not measured",
    }[point.kind]
    return f"{start}{told}." if start else f"{told[:1].upper()}{told[1:]}."


def cache_sentences(arm: Arm) -> list[str]:
    """Return which cache state an arm's figures stand for, and what the jobs kept apart took."""
    told = []
    for state, jobs in arm.asides.items():
        extra = extra_seconds(arm, state)
        more = f": {figure(abs(extra))} s {'more' if extra >= 0 else 'less'} in the mean" if extra is not None else ""
        n = f"{len(jobs)} job{'s' if len(jobs) > 1 else ''}"
        told.append(f"Figures are of {_count(arm)}; {n} with a {state} cache kept apart{more}.")
    return told


def spend_sentence(comparison: Comparison) -> str:
    """Return what all jobs took, failed ones included."""
    failed = [job for arm in comparison.arms for job in arm.failed]
    untold = sum(not job.number(PAID) > 0 for job in comparison.jobs if not job.unfinished)
    jobs = f"{len(comparison.jobs)} job{'' if len(comparison.jobs) == 1 else 's'}"
    told = f"{jobs} took {figure(comparison.paid_seconds)} billable instance seconds in all"
    wasted = sum(seconds for job in failed if (seconds := job.number(PAID)) > 0)
    told += f", {figure(wasted)} of them in {len(failed)} that failed" if failed else ""
    return told + (f" ({untold} without a billing record)." if untold else ".")


def caveat_sentences(comparison: Comparison) -> list[str]:
    """Return what failed and why, what spare capacity saved, and what is taken on trust or has no verdict to say it."""
    alone = comparison.arms[:1] if not comparison.contrasts else ()
    told = [f"“{arm.label}” is not what it says: {doubt}." for arm in alone for doubt in arm.compiler_doubts]
    told += [sentence for arm in comparison.arms for sentence in (*failure_sentences(arm), *spot_sentences(arm))]
    if comparison.is_of_scripts and comparison.trusts_the_work:
        told.append("No job tells how many samples it saw: that all did equal work is taken on trust.")
    return told


def _count(arm: Arm) -> str:
    n = len(arm.headline)
    return (
        f"the {n} job{'' if n == 1 else 's'} with {'no' if arm.cache_state == 'off' else f'a {arm.cache_state}'} cache"
    )


def _minutes(minutes: float | None) -> str:
    return f"{figure(60 * minutes)} s" if minutes is not None and minutes < 2 else f"{figure(minutes)} min"


def percent(ratio: float) -> str:
    """Return the size of a ratio's change in percent: 0.8 -> `20`."""
    gain = abs(gain_percent(ratio))
    return f"{gain:,.{_decimals(gain)}f}"


def _decimals(gain_percent: float) -> int:
    return 1 if abs(gain_percent) < 9.95 else 0


def _direction(ratio: float) -> str:
    return "fewer" if ratio < 1 else "more"
