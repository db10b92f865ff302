"""The sentences in the report of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from judging.break_even import BreakEven
from judging.cache_states import ColdStart
from judging.intervals import Interval
from judging.quality import Measure, Quality
from reports.comparison.checks import checks_answer
from reports.comparison.comparison import INCLUDES_ZERO, Comparison, Contrast, Verdict
from reports.model.numbers import (
    TOO_FEW,
    capitalized,
    change,
    change_interval,
    counted,
    durations,
    factor,
    figure,
    joined,
    percent,
    score,
    short,
    signed,
)
from sweeps.search_space import linear_note
from tracking.groups.planned_job import CHOSEN_SIZE, IMPORTED
from tracking.recorded.arms import BILLABLE, Arm, currency, finite, has_common_currency, uses_other_machines
from tracking.recorded.recorded_job import STEADY, Job
from tracking.recorded.waves import evaluation_scores
from training.contract.failures import Failure

_ADD_SAMPLES = (
    "add `samples` to the experiment file, with an expression that matches the log, such as "
    "script: {metrics: {samples: 'samples ([0-9]+)'}}"
)
_RATE_UNKNOWN = {
    "steps": f"Samples/s are not known, because no step of an optimizer was seen: {_ADD_SAMPLES}.",
    "samples": "Samples/s are not known, because the samples of a step could not be counted: set "
    "script.samples_per_step to their number, or to $global_batch_size.",
    "short": "Samples/s are not known, because the training has too few steps: they are measured from step 10 on.",
}
_NAMES = {BILLABLE: "billable seconds", "samples": "samples", STEADY: "steady throughput"}
_MAX_NAMES = 4
_VISIBLE = 0.005
"""Relative difference between two ratios from which a sentence explains it."""


def headline(comparison: Comparison) -> str:
    return answer_of(comparison)[0]


def answer_of(comparison: Comparison) -> tuple[str, str]:
    """Return the answer in one sentence, and in a few words for a run's name, such as `inductor 20 % cheaper`."""
    baseline, contrasts, jobs = comparison.baseline, comparison.contrasts, comparison.jobs
    if comparison.is_training:
        return _training_answer(jobs[0], comparison.measure)
    if baseline is None:
        return checks_answer(comparison.checks) if comparison.checks else ("This group has no jobs.", "no jobs")
    if not any(arm.succeeded for arm in comparison.arms):
        stopped = "failed" if any(job.failed for job in jobs) else "stopped"
        short_answer = "no answer yet" if any(job.unfinished for job in jobs) else stopped
        if all(job.stopped for job in jobs):
            which = f"all {len(jobs)} jobs were stopped" if len(jobs) > 1 else "the only job was stopped"
        else:
            which = f"none of the {len(jobs)} jobs succeeded" if len(jobs) > 1 else "the only job did not succeed"
        return f"No verdict: {which}.", short_answer
    if not contrasts:
        cost = baseline.summary(BILLABLE)
        seconds = f"{figure(cost.typical)} s billed" if cost else "billed seconds unknown"
        number = figure(cost.typical) if cost else "an unknown number of"
        return f"“{baseline.label}” took {number} billable seconds.", seconds
    if comparison.is_pair:
        return "One job each: no verdict.", "no verdict"
    if (best := comparison.best) and (ratio := best.verdict.ratio):
        fewer = f"{change(ratio.estimate)} {noun(best.verdict)} than “{baseline.label}”"
        sentence = f"“{best.arm.label}” is cheaper: {fewer}{cache_phrase(best.verdict)}."
        return sentence, cheaper(best.arm.label, ratio)
    outcomes = {contrast.verdict.outcome for contrast in contrasts}
    if outcomes == {"not comparable"}:
        has_warnings = any(arm.compiler_warnings for arm in comparison.arms)
        why = "a compiler did not run as its setting says" if has_warnings else "the settings did not do the same work"
        return f"No verdict: {why}.", "not comparable"
    if outcomes == {"not cheaper"}:
        return f"No setting is cheaper than “{baseline.label}”.", "nothing cheaper"
    return f"No setting is shown to be cheaper than “{baseline.label}”.", "inconclusive"


def _training_answer(job: Job, measure: Measure | None) -> tuple[str, str]:
    cost = job.number(BILLABLE)
    seconds = f"{figure(cost)} billable seconds" if cost >= 0 else "an unknown number of billable seconds"
    if job.unfinished:
        return "The training has not ended.", "no answer yet"
    if job.stopped:
        return f"The training was stopped after {seconds}.", "stopped"
    if job.failed:
        why = _failure(job, 200)
        return f"The training failed after {seconds}{f': {why}' if why else ''}.", "failed"
    reached = f" and reached {measure.label} {score(job.number(measure.column))}" if measure else ""
    billed = f"{figure(cost)} s billed" if cost > 0 else "billed seconds unknown"
    return f"The training took {seconds}{reached}.", billed


def cheaper(setting: str, ratio: Interval) -> str:
    """Return `inductor 20 % cheaper`, with a comma after a setting that contains more than letters."""
    return f"{short(setting)}{'' if setting.isalpha() else ','} {percent(ratio.estimate)} % cheaper"


def verdict_sentence(contrast: Contrast, baseline: Arm) -> str:
    """Return the verdict on one arm with its interval."""
    verdict, ratio = contrast.verdict, contrast.verdict.ratio
    if ratio is None:
        return f"{capitalized(verdict.reason)}."
    repeats = f"{ratio.n_arm} repeats against {ratio.n_baseline}"
    interval = f"95 % interval: {change_interval(ratio)}" if ratio.is_informative else f"{TOO_FEW} for an interval"
    costs = f"{change(ratio.estimate)} {noun(verdict)} than “{baseline.label}”{cache_phrase(verdict)}"
    sentence = f"{costs} ({interval}; {repeats})"
    is_said = not verdict.reason or (verdict.reason == INCLUDES_ZERO and not ratio.is_informative)
    return f"{sentence}." if is_said else f"{sentence}, {verdict.reason}."


def noun(verdict: Verdict) -> str:
    """Return the unit of the cost: `billable seconds`, or `billable seconds to eval_loss 0.45`."""
    return f"{verdict.currency.noun} to {verdict.target}" if verdict.target else verdict.currency.noun


def cache_phrase(verdict: Verdict) -> str:
    """Return the state of the compile cache that a cost ratio is for, if the jobs had different ones."""
    return " with a warm compile cache" if verdict.cold else ""


def bill_sentences(verdict: Verdict) -> list[str]:
    """Return the ratio of the mean bills if it says something else, and what a cold compile cache adds."""
    sentences = []
    if verdict.bills:
        sentences.append(
            f"That is the typical job. The mean bill is {change(verdict.bills)}, because a few jobs took much longer."
        )
    return [*sentences, *(cold_sentences(verdict.cold, noun(verdict)) if verdict.cold else [])]


def cold_sentences(cold: ColdStart, unit: str) -> list[str]:
    first = "Not judged: the first training, with a cold compile cache, costs"
    sentences = [f"{first} {change(cold.ratio)} {unit} ({counted(cold.jobs, 'job')})."]
    if cold.trainings > 1:
        sentences.append(f"With it, {cold.trainings:,} trainings cost {change(cold.total)}.")
    if cold.cheaper_from is None:
        return [*sentences, "It is never earned back: later trainings do not cost less."]
    if cold.cheaper_from > 1:
        sentences.append(f"It is earned back after {cold.cheaper_from:,} trainings.")
    return sentences


def time_sentences(arm: Arm, baseline: Arm) -> list[str]:
    """Return a sentence on an arm's time and cost if it ran on different machines than the baseline.

    The faster arm may cost more. Empty if both ran on the same machines.
    """
    mine, others = (side.summary("cost_billable_seconds") for side in (arm, baseline))
    if not uses_other_machines(arm, baseline) or not mine or not others or others.typical <= 0:
        return []
    seconds = mine.typical, others.typical
    sentence = f"It takes {factor(seconds[0] / seconds[1])} times as long: {' against '.join(durations(*seconds))}"
    costs = [side.summary(currency(arm, baseline).column) for side in (arm, baseline)]
    if has_common_currency(arm, baseline) and costs[0] and costs[1] and costs[1].typical > 0:
        sentence += f", at {factor(costs[0].typical / costs[1].typical)} times the cost"
    return [f"{sentence}."]


def quality_sentence(quality: Quality) -> str:
    sentence, d = capitalized(quality.measure.label), quality.difference
    interval = f", 95 % interval {signed(d.low)} to {signed(d.high)}"
    note = interval if quality.is_informative else f"; {TOO_FEW} for an interval"
    sentence += f" {score(quality.arm)} against {score(quality.baseline)} (difference {signed(d.estimate)}{note})."
    if quality.commonest is not None:
        sentence += f" Always giving the commonest answer scores {score(quality.commonest)}"
        sentence += "." if quality.is_above_commonest else ", and the arm is not shown to be above it."
    if not quality.is_paired and quality.most_lost <= quality.margin:
        share = f"{100 * quality.diverging_share:.0f} %"
        sentence += f" {counted(quality.seeds, 'seed')} cannot exclude that up to {share} of seeds diverge."
    return sentence


def contrast_sentences(contrast: Contrast, baseline: Arm) -> list[str]:
    """Return all sentences about one arm against the baseline, the verdict first."""
    arm, verdict = contrast.arm, contrast.verdict
    return [
        verdict_sentence(contrast, baseline),
        *bill_sentences(verdict),
        *time_sentences(arm, baseline),
        *([quality_sentence(verdict.quality)] if verdict.quality else []),
        *despite_sentences(verdict),
        *cache_sentences(arm),
        *(break_even_sentence(state, point, baseline) for state, point in contrast.break_evens.items()),
    ]


def despite_sentences(verdict: Verdict) -> list[str]:
    """Return the cautions, and a sentence on the differences in work that were allowed or, if none were, could be."""
    if verdict.despite:
        return [*verdict.cautions, f"Compared as requested, although {' and '.join(verdict.despite)}."]
    if verdict.allowable:
        return [f"To compare them anyway, run `trainfare report` with `--allow {','.join(verdict.allowable)}`."]
    return [*verdict.cautions]


def break_even_sentence(state: str, point: BreakEven, baseline: Arm) -> str:
    """Return the break-even point of an arm that starts with a compile cache in `state`."""
    start = "" if state == "off" else f"with a {state} compile cache, "
    return f"Break-even: {start}{_break_even(point, f'of “{baseline.label}”')}."


def _break_even(point: BreakEven, other: str) -> str:
    samples, low, high = (f"{value or 0:,.0f}" for value in (point.samples, point.low, point.high))
    interval = f"95 % interval: {low} to {high}"
    shown = f", shown after {high} samples" if (point.high or 0) >= 1 else ""
    return {
        "at": f"ahead {other} after {samples} samples ({interval}), {_minutes(point.minutes)} in",
        "at least": f"ahead {other} after {low} samples or more, or never: the steady gain is within the noise",
        "until": f"ahead {other} only up to {samples} samples ({interval}), {_minutes(point.minutes)} in",
        "until at least": f"ahead {other} up to {low} samples or more: the steady rates do not differ beyond the noise",
        "already ahead": f"ahead {other} from the start: compile and warm-up take no longer{shown}",
        "never": f"never ahead {other}: the steady rate is lower and the start takes no less{shown}",
        "not determined": "not determined: the times are within the noise or not measured",
    }[point.kind]


def _minutes(minutes: float | None) -> str:
    return f"{figure(60 * minutes)} s" if minutes is not None and minutes < 2 else f"{figure(minutes)} min"


def cache_sentences(arm: Arm) -> list[str]:
    """Return the cache state of the jobs in tables and charts, the time of jobs with a different state, and the time of
    autotuning."""
    sentences = []
    if tuned := [job.number("time_compile_seconds") for job in arm.jobs if job.number("compile_autotuned") > 0]:
        took = f"{counted(len(tuned), 'job')} autotuned and compiled kernels for {figure(fmean(tuned))} s"
        sentences.append(f"{took}; the compile cache keeps them.")
    for state, jobs in arm.other_cache_states.items():
        others, compared = [seconds for job in jobs if (seconds := job.number(BILLABLE)) > 0], arm.positive(BILLABLE)
        extra = fmean(others) - fmean(compared) if others and compared else math.nan
        time = f" ({figure(abs(extra))} s {'more' if extra >= 0 else 'less'} on average)" if extra == extra else ""
        shown = "no" if arm.cache_state == "off" else f"a {arm.cache_state}"
        shown = f"the {counted(len(arm.compared), 'job')} with {shown} cache"
        sentences.append(f"Tables and charts show {shown}, not {counted(len(jobs), 'job')} with a {state} cache{time}.")
    return sentences


def unlike_sentences(comparison: Comparison) -> list[str]:
    """Return a sentence for each verdict whose ratio differs visibly from the ratio of the costs in the table.

    The ratio comes from the look that stopped the arm; the table's costs come from all jobs of one cache state.
    """
    sentences = []
    for each in comparison.contrasts:
        column, ratio = each.verdict.currency.column, each.verdict.ratio
        mine, others = (comparison.typical(arm, column) for arm in (each.arm, comparison.arms[0]))
        if ratio and mine and others and abs(mine / others / ratio.estimate - 1) > _VISIBLE:
            sentences.append(
                f"The verdict on “{each.arm.label}”, {change(ratio.estimate)}, rests on other jobs than the table's."
            )
    return sentences


def cost_sentence(comparison: Comparison) -> str:
    """Return the cost of all jobs, failed and stopped ones included."""
    jobs = comparison.billed_jobs
    ended = [job.number(BILLABLE) for job in jobs if not job.unfinished]
    unbilled, negative = sum(not math.isfinite(cost) for cost in ended), sum(cost < 0 for cost in ended)
    total = figure(comparison.billable_instance_seconds)
    sentence = f"{counted(len(jobs), 'job')} took {total} billable instance seconds in all"
    wasted = []
    for kind in ("failed", "stopped"):
        if lost := [job for job in jobs if getattr(job, kind)]:
            seconds = sum(seconds for job in lost if (seconds := job.number(BILLABLE)) > 0)
            wasted.append(f"{figure(seconds)} of them in {counted(len(lost), f'{kind} job')}")
    sentence += f", {joined(wasted)}" if wasted else ""
    notes = [f"{unbilled} without a billing record"] if unbilled else []
    notes += [f"{negative} with a negative cost, which does not count"] if negative else []
    return f"{sentence} ({', '.join(notes)})." if notes else f"{sentence}."


def quality_sentences(comparison: Comparison) -> list[str]:
    """Return how to declare what measures the quality of scripts, if nothing does."""
    succeeded = [job for arm in comparison.arms for job in arm.succeeded]
    if comparison.measure or not any(job.is_script for job in succeeded):
        return []
    scores = evaluation_scores(succeeded)
    why, entry = "the script logged no evaluation", "eval_accuracy: 'accuracy ([0-9.]+)'"
    if scores:
        listed = joined(scores if len(scores) <= 3 else [*scores[:3], f"{len(scores) - 3} more"])
        meaning = "unit: number, better: lower" if scores[0].endswith("loss") else "unit: fraction, better: higher"
        why, entry = f"script.metrics declares none of {listed}", f"{scores[0]}: {{{meaning}}}"
    way = "" if scores else "log one to MLflow or TensorBoard, or "
    return [f"No quality is judged, because {why}: {way}add the line `metrics: {{{entry}}}` under the line `script:`."]


def caveat_sentences(comparison: Comparison) -> list[str]:
    """Return failed jobs with reasons, stopped jobs, savings from spot capacity, and assumptions of the verdicts."""
    unjudged = comparison.arms[:1] if not comparison.contrasts else ()
    sentences = [warning for arm in unjudged for warning in warning_sentences(arm)]
    sentences += choice_sentences(comparison)
    sentences += data_sentences(comparison.jobs)
    headline = "" if comparison.arms else checks_answer(comparison.checks)[0]
    sentences += [each.sentence for each in comparison.checks if each.job and each.sentence not in headline]
    for arm in comparison.arms:
        sentences += [] if comparison.is_training else failure_sentences(arm)
        if (n := len(arm.stopped)) and not comparison.is_training:
            sentences.append(f"{counted(n, 'job')} of “{arm.label}” {'was' if n == 1 else 'were'} stopped.")
        sentences += interruption_sentences(arm)
    if comparison.seedless:
        labels = joined([f"“{label}”" for label in comparison.seedless])
        sentences.append(
            f"Repeats of {labels} with different seeds have equal losses to the digit: the script ignores its seed "
            "($seed in script.hyperparameters). Their spread is not a seed spread."
        )
    sentences += disturbance_sentences(comparison.jobs)
    is_undecided = any(each.verdict.outcome == "inconclusive" for each in comparison.contrasts)
    keeps = comparison.design is not None and comparison.design.when_disturbed == "keep"
    if is_undecided and keeps and any(job.disturbances for job in comparison.jobs):
        sentences.append("With compare.when_disturbed=repeat, each disturbed job runs once more.")
    sentences += left_out_sentences(comparison)
    sentences += [*rate_sentences(comparison.jobs), *scaling_sentences(comparison.arms)]
    succeeded = [job for arm in comparison.arms for job in arm.succeeded] if len(comparison.arms) > 1 else []
    if comparison.has_scripts and succeeded and not finite(succeeded, "samples"):
        sentences.append("No job recorded how many samples it saw: equal work is assumed.")
    return sentences


def choice_sentences(comparison: Comparison) -> list[str]:
    """Return the batch size that each calibration chose, and what the choice cost."""
    return [
        f"“{job.arm}” chose batch size {size}. It took {figure(job.number(BILLABLE))} billable instance seconds, which "
        "no verdict counts."
        for job in comparison.before_trainings
        if (size := job.text.get(CHOSEN_SIZE))
    ]


def failure_sentences(arm: Arm) -> list[str]:
    """Reasons why the arm's jobs failed: each failure class once, with its first job's message."""
    by_class: dict[str, list[Job]] = {}
    for job in arm.failed:
        by_class.setdefault(job.text.get("failure_class") or "", []).append(job)
    sentences = []
    for jobs in by_class.values():
        why = _failure(jobs[0], 160)
        sentences.append(f"{counted(len(jobs), 'job')} of “{arm.label}” failed{f': {why}' if why else ''}.")
    return sentences


def _failure(job: Job, most: int) -> str:
    """Return why a job failed, in at most `most` characters and without a full stop."""
    text = Failure(job.text.get("failure_class") or "", job.text.get("failure_message") or "").text
    return short(text, most).rstrip(".")


def interruption_sentences(arm: Arm) -> list[str]:
    """Return the savings from spot capacity and the number of interruptions."""
    savings, n = arm.summary("cost_spot_savings_percent"), int(sum(arm.values("cost_interruptions")))
    if savings is None and n:
        jobs = counted(len(arm.compared), "job")
        return [f"“{arm.label}” was interrupted {counted(n, 'time')} in {jobs}, and what that lost is billed."]
    if savings is None:
        return []
    often = f"interrupted {counted(n, 'time')} in {len(arm.compared)} jobs" if n else "never interrupted"
    billed = f"{figure(savings.typical)} % less than its running time"
    return [f"On spot capacity, “{arm.label}” was billed {billed}. It was {often}."]


def data_sentences(jobs: Sequence[Job]) -> list[str]:
    """Return what is probably not meant in the data of the jobs."""
    return list(dict.fromkeys(f"Data: {notes}." for job in jobs if (notes := job.text.get("data_notes"))))


def disturbance_sentences(jobs: Sequence[Job]) -> list[str]:
    """Return the number of disturbed jobs, and the first one with its reasons; empty without any."""
    measured = [job for job in jobs if job.disturbances is not None]
    disturbed = [job for job in measured if job.disturbances]
    if not disturbed:
        return []
    first, reasons = disturbed[0], ", ".join(disturbed[0].disturbances or [])
    verb = "was" if len(disturbed) == 1 else "were"
    count = f"{len(disturbed)} of {counted(len(measured), 'job')} {verb} disturbed"
    repeated = sum(job.is_again for job in jobs)
    again = f" {counted(repeated, 'job')} ran again: the second run counts." if repeated else ""
    return [f"{count}: during {first.title}, {reasons}.{again}"]


def left_out_sentences(comparison: Comparison) -> list[str]:
    """Return why no further repeats of an arm were started; empty if all planned repeats were."""
    most = comparison.design.looks[-1] if comparison.design else 0
    return [
        f"No further repeats of “{arm.label}” were started: they would have failed as well "
        f"({short(arm.deterministic_failure.exception, 160)})."
        for arm in comparison.arms
        if arm.deterministic_failure
        and (len(arm.jobs) < most or any(job.text.get("repeats_left_out") for job in arm.jobs))
    ]


def rate_sentences(jobs: Sequence[Job]) -> list[str]:
    """Return why the steady samples/s of scripts are not known, and what to add; empty if they are known."""
    own = [job for job in jobs if job.is_script and job.text.get("role") != IMPORTED]
    reasons = {job.text.get("rate_unknown") for job in own if job.succeeded}
    sentence = next((_RATE_UNKNOWN[reason] for reason in _RATE_UNKNOWN if reason in reasons), None)
    return [sentence] if sentence and not any(job.number(STEADY) > 0 for job in jobs) else []


def scaling_sentences(arms: Sequence[Arm]) -> list[str]:
    """Return a note on arms of our own jobs whose batch grew with the linear rule from the first arm's."""
    jobs = [(arm.label, job) for arm in arms for job in arm.succeeded if not job.is_script]
    size, rate = "optim_global_batch_size", "hp_learning_rate"
    return linear_note({f"“{label}”": (job.number(size), job.number(rate)) for label, job in jobs})


def warning_sentences(arm: Arm) -> list[str]:
    return [f"{warning}." for warning in arm.setting_warnings]


def missing_data(comparison: Comparison) -> list[str]:
    """Return sentences about jobs that have not ended, successful jobs without a number that others have, data that
    arrived too late, and costs that cannot be true: negative ones, and 0 for a successful job."""
    running = [job for job in comparison.jobs if job.unfinished]
    sentences = []
    if running:
        again = "Run `trainfare report` again after they have ended."
        sentences.append(f"Missing: {_listed(running)}, still running. {again}")
    succeeded = [job for arm in comparison.arms for job in arm.succeeded]
    quality = comparison.measure.column if comparison.measure else comparison.loss_column
    for column in dict.fromkeys([*_NAMES, comparison.loss_column, quality]):
        lacking = [job for job in succeeded if not math.isfinite(job.number(column))]
        if lacking and (column == BILLABLE or len(lacking) < len(succeeded)):
            name = _NAMES.get(column, column)
            sentences.append(f"Missing: {name} of {_listed(lacking)}: not recorded or not finite.")
    late: dict[str, list[Job]] = {}
    for job in comparison.jobs:
        if job.text.get("missing", "no") != "no":
            late.setdefault(job.text.get("group") or "", []).append(job)
    sentences += [
        f"Missing: the end of the log or the billed seconds of {_listed(jobs)}, which SageMaker had not delivered "
        f"in time. Run `trainfare attach --group {group}` later to add them."
        for group, jobs in late.items()
    ]
    wrong = [job for job in comparison.jobs if (cost := job.number(BILLABLE)) < 0 or (cost == 0 and job.succeeded)]
    if wrong:
        costs = _shortened([f"{job.number(BILLABLE):g} of “{job.title}”" for job in wrong])
        sentences.append(f"Not counted: billable instance seconds {costs}: the cost of a job must be above 0.")
    return sentences


def deleted(names: Sequence[str]) -> list[str]:
    """Return a sentence that names the deleted runs, if any."""
    return [f"Missing: {_shortened(names)}, deleted in MLflow. MLflow can restore deleted runs."] if names else []


def _listed(jobs: Sequence[Job]) -> str:
    return _shortened([f"“{job.title}”" for job in jobs])


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
