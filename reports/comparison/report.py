"""The report of a comparison or of a single training, its figures as data, and the results for `--fail-on`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from judging.intervals import Interval
from judging.measures import COMMONEST
from judging.summaries import gain_percent, summary
from reports.comparison import messages
from reports.comparison.checks import check_fields, check_sections
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.pair import pair_blocks, percentages
from reports.comparison.tables import (
    factorial_of,
    figures,
    job_sections,
    looks_sections,
    looks_summary,
    published_sections,
    settings_table,
    spent_sentence,
    training_table,
)
from reports.model.numbers import change, score, short
from reports.model.report import (
    Block,
    Chart,
    Charts,
    Definition,
    Definitions,
    Item,
    Items,
    Metric,
    Report,
    Section,
    Text,
    measured_section,
)
from tracking.recorded.arms import Arm, finite
from tracking.recorded.recorded_job import Job

TYPICAL = (
    "Typical values over the successful repeats, with the smallest and the largest value below. They are geometric "
    "means, and from five repeats on the medians of all pairs' means; losses and scores have their mean. The billable "
    "seconds and the cost include what failed jobs add. Compile and warm-up do not count towards the steady rate; they "
    "do count towards the billable seconds."
)
SCRIPTS = Definition(
    "Scripts",
    "Measured from outside: by the service's times, the meter's counts, and what the script prints and logs.",
)
_INTERVAL = Definition(
    "Interval",
    "Of the typical job's cost, arm over baseline; if a job failed, of the mean bill of a usable model. The intervals "
    "of all looks and arms hold together in 95 %. An arm that stopped because it looked good looks better than it is.",
)
_VERDICT = Definition(
    "Verdict",
    "“Cheaper”: the whole interval is below 1 and the quality is kept. “Not cheaper”: the whole interval is above 1, a "
    "gain is unlikely, or the quality is worse. “Not comparable”: the jobs did different work, or a compiler did not "
    "run as the setting says. “Inconclusive”: anything else.",
)
LONGEST_TEXT = 300
"""Most characters of a text that a model generated."""
FAIL_ON = ("dearer", "worse", "inconclusive", "failed")
"""Results that `--fail-on` accepts."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A group's data besides the comparison of its jobs."""

    title: str
    tracking_uri: str
    environment: Mapping[str, Any]
    """Versions and hardware of the first successful job."""
    table: pd.DataFrame
    """The jobs, see `job_tables.jobs`."""
    missing: tuple[str, ...] = ()
    """One sentence for each kind of data that does not exist or could not be read."""
    texts: Mapping[str, Sequence[Sequence[object]]] = field(default_factory=dict)
    """Rows with texts of each arm's first model, by label: see `texts_table` of the job's tasks."""


def comparison_report(comparison: Comparison, charts: Sequence[Chart], source: Source) -> Report:
    (headline, short_answer), remarks = messages.answer_of(comparison), tuple(_remarks(comparison))
    sections = tuple(_sections(comparison, charts, source))
    measured = measured_section(*_definitions(comparison))
    environment = ran_on_sections(comparison.jobs, source.environment, comparison.group)
    verdicts = Items(
        tuple(
            Item(
                label=each.arm.label,
                outcome=each.verdict.outcome,
                texts=tuple(map(Text, messages.contrast_sentences(each, comparison.arms[0]))),
            )
            for each in comparison.contrasts
        )
    )
    settings, pair = tuple(settings_blocks(comparison)), pair_blocks(comparison)
    quality = tuple(Text(each, "strong") for each in messages.quality_sentences(comparison))
    return Report(
        group=comparison.group,
        title=source.title,
        headline=headline,
        answer=(*quality, *pair, *remarks, *([verdicts] if verdicts.items else [])),
        sections=(*sections, measured, *environment),
        brief=(*quality, *(pair or settings), verdicts, *remarks),
        missing=source.missing,
        summary=summary_of(comparison),
        metrics=tuple(metrics_of(comparison)),
        short_answer=short_answer,
        results=results_by_arm(comparison),
        verdicts=verdicts_of(comparison),
        comparison_table=None if comparison.is_training else settings_table(comparison, with_verdicts=True),
        rows_csv=source.table.to_csv(index=False),
    )


def settings_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield the table of the settings, with a note on verdicts from other jobs than the table's."""
    if table := training_table(comparison) if comparison.is_training else settings_table(comparison):
        yield table
    if sentences := messages.unlike_sentences(comparison):
        yield Text(" ".join(sentences))


def texts_sections(texts: Mapping[str, Sequence[Sequence[object]]]) -> tuple[Section, ...]:
    """Return the section with texts that the models generated for rows of the validation data."""
    rows = next(iter(texts.values()), [])
    definitions = []
    for at, (number, prompt, reference, *_) in enumerate(rows):
        of_arms = {label: each[at][-1] for label, each in texts.items() if at < len(each)}
        made = [f"{label}: {short(str(text), LONGEST_TEXT)}" for label, text in {"data": reference, **of_arms}.items()]
        definitions.append(Definition(f"Row {number}: {short(str(prompt), LONGEST_TEXT)}", " — ".join(made)))
    return (Section("Generated texts", (Definitions(tuple(definitions)),)),) if definitions else ()


def chart_sections(charts: Sequence[Chart]) -> tuple[Section, ...]:
    return (Section("Charts", (Charts(tuple(charts)),)),) if charts else ()


def _remarks(comparison: Comparison) -> Iterator[Block]:
    """Yield the cost of all jobs, and whatever else a reader must know to trust the answer."""
    if comparison.billed_jobs and not comparison.is_training:  # the headline has the cost of a single training
        yield Text(" ".join(filter(None, (spent_sentence(comparison), messages.cost_sentence(comparison)))), "muted")
    yield from map(Text, messages.caveat_sentences(comparison))


def _sections(comparison: Comparison, charts: Sequence[Chart], source: Source) -> Iterator[Section]:
    if comparison.is_training:
        yield Section("The training", tuple(settings_blocks(comparison)))
    elif comparison.arms:
        yield Section("The settings", (*settings_blocks(comparison), Text(TYPICAL, "small")))
    yield from check_sections(comparison.checks)
    yield from looks_sections(comparison)
    if factorial := factorial_of(comparison):
        note = "Change in cost, with its 95 % interval in brackets; below it are the typical billable instance seconds."
        yield Section(factorial.name, (factorial, Text(note, "small")))
    yield from published_sections(source.table, comparison)
    yield from chart_sections(charts)
    yield from texts_sections(source.texts)
    title = "The job" if comparison.is_training else "Every job"
    yield from job_sections(comparison.billed_jobs, source.tracking_uri, title)


def _definitions(comparison: Comparison) -> Iterator[Definition]:
    if comparison.has_scripts:
        yield SCRIPTS
    if comparison.arms and not comparison.is_training:
        yield _INTERVAL
        yield _VERDICT
        yield Definition("Rules", f"Judged by version {comparison.rules} of the rules. docs/judging.md lists them.")
    if measure := comparison.measure:
        commonest = max(finite(comparison.jobs, measure.column + COMMONEST), default=math.nan)
        text = f"Measured by {measure.label}."
        if math.isfinite(commonest):
            text += f" Always giving the commonest answer of the evaluation rows scores {score(commonest)}."
        yield Definition("Quality", text)


def summary_of(comparison: Comparison) -> dict[str, Any]:
    """Return numbers and verdicts; non-finite numbers are kept, although strict JSON forbids them."""
    verdicts = {
        "baseline": comparison.baseline.label if comparison.baseline else None,
        "best": comparison.best.arm.label if comparison.best else None,
        "rules": comparison.rules,
        "contrasts": [contrast_summary(contrast) for contrast in comparison.contrasts],
    }
    return {
        "group": comparison.group,
        "headline": messages.headline(comparison),
        **({} if comparison.is_training else verdicts),
        "quality_measure": comparison.measure.column if comparison.measure else None,
        "paid_instance_seconds": comparison.billable_instance_seconds,
        "arms": [_arm(arm) for arm in comparison.arms],
        **looks_summary(comparison),
        "checks": check_fields(comparison.checks),
        **({"percentages": {at: c.number for at, c in percentages(comparison).items()}} if comparison.is_pair else {}),
    }


def contrast_summary(contrast: Contrast) -> dict[str, Any]:
    return {
        "arm": contrast.arm.label,
        **asdict(contrast.verdict),
        "speed_up": asdict(contrast.speed_up) if contrast.speed_up else None,
        "break_even": {state: asdict(point) for state, point in contrast.break_evens.items()},
    }


def metrics_of(comparison: Comparison) -> Iterator[Metric]:
    """Yield each arm's figures that have a metric, and its saving against the baseline."""
    columns = [column for column in figures(comparison) if column.metric]
    for arm in comparison.arms:
        for column in columns:
            number = column.cell(arm).number
            yield Metric(name=column.metric, label=arm.label, value=math.nan if number is None else number)
    for contrast in comparison.contrasts:
        if ratio := contrast.verdict.ratio:
            yield percent_metric("saving_percent", ratio, contrast.arm.label)


def percent_metric(name: str, ratio: Interval, label: str = "", *, sign: int = -1) -> Metric:
    """Return a cost ratio as a saving in percent: a ratio of 0.8 saves 20 %. With `sign` 1, it is a gain.

    An interval that says nothing is left out.
    """
    low, high = sorted(sign * gain_percent(end) for end in (ratio.low, ratio.high))
    interval = (low, high) if ratio.is_informative else None
    return Metric(name=name, label=label, value=sign * gain_percent(ratio.estimate), interval=interval)


def _arm(arm: Arm) -> dict[str, Any]:
    names = sorted({name for job in arm.compared for name in job.numbers})
    summaries = {name: asdict(values) for name in names if (values := arm.summary(name))}
    setup = summary(arm.setup_seconds)
    return {
        "label": arm.label,
        "cache_state": arm.cache_state,
        "jobs": len(arm.jobs),
        "succeeded": len(arm.succeeded),
        "failed": len(arm.failed),
        "stopped": len(arm.stopped),
        "disturbed": sum(bool(job.disturbances) for job in arm.jobs),
        "repeats": len(arm.compared),
        "setup_seconds": asdict(setup) if setup else None,
        "numbers": summaries,
    }


def results_by_arm(comparison: Comparison) -> Mapping[str, tuple[str, ...]]:
    """Return the labels of the arms with each of the results in `FAIL_ON`; no entry for results that did not occur.

    *dearer*: the whole interval of the cost ratio, and the ratio of the mean bills, lie above 1. *worse*: the quality
    is shown to be worse by more than the margin, or a job of the arm has no score or did not reach the target.
    *inconclusive*: the verdict is inconclusive or not comparable, or the quality is not shown. *failed*: a job failed.
    """
    arms: dict[str, list[str]] = {result: [] for result in FAIL_ON}
    arms["failed"] = [arm.label for arm in comparison.arms if arm.failed]
    for each in comparison.contrasts:
        label, verdict, quality = each.arm.label, each.verdict, each.verdict.quality
        if verdict.ratio is not None and verdict.ratio.low > 1 and (verdict.bills or math.inf) > 1:
            arms["dearer"].append(label)
        if (quality and quality.shown_beyond) or verdict.unscored or (quality is None and verdict.misses_target):
            arms["worse"].append(label)
        if verdict.outcome in ("inconclusive", "not comparable", "cheaper, quality not shown"):
            arms["inconclusive"].append(label)
    return {result: tuple(labels) for result, labels in arms.items() if labels}


def verdicts_of(comparison: Comparison) -> Mapping[str, str]:
    """Return the verdict on the arm of each job in a few words, by run id; empty without contrasts."""
    texts = {comparison.arms[0].label: "baseline"} if comparison.contrasts else {}
    for contrast in comparison.contrasts:
        outcome, ratio = contrast.verdict.outcome, contrast.verdict.ratio
        change_shown = f", {change(ratio.estimate)}" if ratio and outcome in ("cheaper", "not cheaper") else ""
        texts[contrast.arm.label] = outcome + change_shown
    of_checks = {check.job.run_id: check.answer for check in comparison.checks if check.job}
    return of_checks | {
        job.run_id: texts[arm.label] for arm in comparison.arms if arm.label in texts for job in arm.jobs
    }


def fail_sentences(results: Mapping[str, tuple[str, ...]], fail_on: frozenset[str]) -> Iterator[str]:
    """Yield a sentence for each result that occurred and that `fail_on` names."""
    for result, labels in results.items():
        if result in fail_on:
            arms = ", ".join(f"“{label}”" for label in labels)
            yield f"--fail-on {result}: {'a job failed of ' if result == 'failed' else ''}{arms}."


def ran_on_sections(jobs: Sequence[Job], environment: Mapping[str, Any], group: str) -> tuple[Section, ...]:
    """Return the section with the jobs' environment; empty if nothing is known about it."""
    known = [Definition(term, text) for term, text in environment_texts(jobs, environment).items()]
    definitions = Definitions((*known, Definition("Group", group)))
    return (Section("Environment", (definitions,)),) if known else ()


def environment_texts(jobs: Sequence[Job], environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the jobs' devices, services, data and prices, and the versions in `environment`."""
    columns = {"Device": "device", "Service": "service", "Instance type": "instance_type", "Data": "data_key"}
    texts = {
        name: ", ".join(dict.fromkeys(value for job in jobs if (value := job.text.get(column))))
        for name, column in columns.items()
    }
    prices = []
    for job in jobs:
        usd, source, date = (job.text.get(f"price_{name}") for name in ("usd_per_hour", "source", "date"))
        origin = ", ".join(part for part in (source, date) if part)
        if usd:
            prices.append(f"{usd} USD per hour of {job.text.get('instance_type')}{f' ({origin})' if origin else ''}")
    texts["Price"] = "; ".join(dict.fromkeys(prices))
    versions = (environment.get("job") or {}).get("versions") or environment.get("packages") or {}
    texts["Versions"] = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    git = environment.get("git") or {}
    changed = " with local changes" if git.get("dirty") else ""
    texts["Source"] = f"{git['commit'][:12]}{changed}" if git.get("commit") else ""
    return {name: text for name, text in texts.items() if text}


def with_neutral_label(comparison: Comparison) -> Comparison:
    """Return a single training with another label for its only arm: `none` is the name of a compiler."""
    return replace(comparison, arms=tuple(replace(arm, label="training") for arm in comparison.arms))
