"""The report of one training: its outcome, time, cost and quality. It compares nothing, so it has no verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from judging.quality import Measure
from reports.comparison.arms import Arm, Job
from reports.comparison.comparison import Comparison
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.comparison.messages import doom_sentences, rate_sentences
from reports.comparison.report import (
    END_TO_END_RATE,
    MEASURED,
    SCRIPTS,
    STEADY_RATE,
    Source,
    chart_sections,
    metrics_of,
    ran_on_sections,
    summary_of,
)
from reports.comparison.tables import columns, job_sections
from reports.model.numbers import NONE, figure, money, score, short
from reports.model.report import (
    Cell,
    Chart,
    Definition,
    Definitions,
    Heading,
    Report,
    Row,
    Section,
    ShortAnswer,
    Table,
    Text,
)
from training.contract.failures import recorded_failure

_ABOUT_ARMS = ("arm", "repeats", "failed", "stopped")
"""Columns of a comparison that say nothing about a single training."""
_ABOUT_VERDICTS = ("baseline", "best", "rules", "contrasts")
"""Fields of a comparison's summary that say nothing about a single training."""
_NAMES = {
    "batch": "batch size",
    "steady": "steady rate",
    "end to end": "end-to-end rate",
    "training": "steady training",
}
"""Names of figures that have another one as a narrow column."""
_DEFINITIONS = (
    Definition(
        "Billable seconds",
        "Wall-clock time from the start of downloading to the end of uploading, as the service bills it. Provisioning "
        "is not included. Several instances are all counted.",
    ),
    STEADY_RATE,
    END_TO_END_RATE,
    Definition("Compile + warm-up", "Seconds before the steady state. A warm compile cache shortens them."),
    Definition("Steady training", "Seconds of the steps after warm-up."),
)


def is_one_training(comparison: Comparison) -> bool:
    """Return True if there is nothing to compare: a single job, which is not the first of a comparison."""
    return len(comparison.jobs) == 1 and comparison.design is None


def with_neutral_label(comparison: Comparison) -> Comparison:
    """Return the comparison with another label for its only arm, for charts: `none` is the name of a compiler."""
    return replace(comparison, arms=tuple(replace(arm, label="training") for arm in comparison.arms))


def training_report(comparison: Comparison, charts: Sequence[Chart], source: Source) -> Report:
    [arm] = comparison.arms
    [job] = arm.jobs
    headline = _headline(job, comparison.measure)
    sentences = [*_remarks(arm), *doom_sentences(comparison), *rate_sentences(comparison.jobs)]
    tables, remarks = _figures(comparison), tuple(map(Text, sentences))
    numbers = {**summary_of(comparison), "headline": headline}
    return Report(
        group=comparison.group,
        title=source.title,
        headline=headline,
        answer=remarks,
        sections=tuple(_sections(comparison, tables, charts, source)),
        terminal=(Text(headline, "strong"), *tables, *remarks),
        markdown=(*tables, *remarks),
        missing=source.missing,
        summary={name: value for name, value in numbers.items() if name not in _ABOUT_VERDICTS},
        metrics=tuple(metrics_of(comparison)),
        short_answer=ShortAnswer("", _short_answer(job)),
        results={"failed": (arm.label,)} if job.failed else {},
        rows_csv=source.table.to_csv(index=False),
    )


def _sections(
    comparison: Comparison, tables: Sequence[Table], charts: Sequence[Chart], source: Source
) -> Iterator[Section]:
    for table in tables:
        yield Section("The training", (table,))
    yield from chart_sections(charts)
    yield from job_sections(comparison.jobs, source.tracking_uri, "The job")
    yield Section(MEASURED, (Definitions((*([SCRIPTS] if comparison.has_scripts else []), *_DEFINITIONS)),))
    yield from ran_on_sections(comparison.jobs, source.environment, comparison.group)


def _headline(job: Job, measure: Measure | None) -> str:
    cost = job.number(BILLABLE)
    seconds = f"{figure(cost)} billable seconds" if cost >= 0 else "an unknown number of billable seconds"
    if job.unfinished:
        return "The training has not ended."
    if job.stopped:
        return f"The training was stopped after {seconds}."
    if job.failed:
        reason = recorded_failure(job.text.get("failure_class") or "", job.text.get("failure_message") or "").text
        why = short(reason, 200).rstrip(".")
        return f"The training failed after {seconds}{f': {why}' if why else ''}."
    reached = f" and reached {measure.label} {score(job.number(measure.column))}" if measure else ""
    return f"The training took {seconds}{reached}."


def _short_answer(job: Job) -> str:
    """Return the outcome in a few words, for the name of the group's run."""
    if job.unfinished:
        return "no answer yet"
    if job.stopped or job.failed:
        return "stopped" if job.stopped else "failed"
    return f"{figure(job.number(BILLABLE))} s billed" if job.number(BILLABLE) > 0 else "billed seconds unknown"


def _remarks(arm: Arm) -> list[str]:
    """Return the cost in dollars, savings from spot capacity, and doubts about the figures."""
    [job] = arm.jobs
    sentences = [f"It cost {money(usd)} USD."] if (usd := job.number(DOLLARS.column)) > 0 else []
    sentences += [f"The figures do not match the compiler setting: {warning}." for warning in arm.compiler_warnings]
    if (saved := job.number("cost_spot_savings_percent")) > 0:
        sentences.append(f"On spot capacity, it was billed {figure(saved)} % less than its running time.")
    if job.disturbances:
        sentences.append(f"Its measurement was disturbed: {', '.join(job.disturbances)}.")
    return sentences


def _figures(comparison: Comparison) -> tuple[Table, ...]:
    """Return the table with a row per figure; empty without any."""
    [arm] = comparison.arms
    figures = [column for column in columns(comparison) if column.label not in _ABOUT_ARMS]
    rows = [(_NAMES.get(each.label, each.label), each.value(arm), each.unit) for each in figures]
    cells = [
        Row((Cell(text=name), Cell(text=f"{value} {unit}".strip()))) for name, value, unit in rows if value != NONE
    ]
    headings = (Heading(label="figure", kind="text"), Heading(label="value"))
    return (Table(name="The training", headings=headings, rows=tuple(cells), is_sortable=False),) if cells else ()
