"""The report of one training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from reports.comparison.comparison import Comparison
from reports.comparison.definitions import END_TO_END_RATE, MEASURED, SCRIPTS, STEADY_RATE
from reports.comparison.figures import metrics_of, summary_of
from reports.comparison.job_table import job_sections
from reports.comparison.messages import doom_sentences, rate_sentences
from reports.comparison.ran_on import ran_on_sections
from reports.comparison.report import Source, chart_sections
from reports.model.blocks import Chart, Definition, Definitions, Text
from reports.model.report import Report, Section, ShortAnswer
from reports.training import messages
from reports.training.figures import figures_table

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
    """Return the report of the only job."""
    [arm] = comparison.arms
    [job] = arm.jobs
    headline = messages.headline(job, comparison.measure)
    sentences = [*messages.remarks(arm), *doom_sentences(comparison), *rate_sentences(comparison.jobs)]
    figures, remarks = figures_table(comparison), tuple(map(Text, sentences))
    table = (figures,) if figures else ()
    return Report(
        group=comparison.group,
        title=source.title,
        headline=headline,
        answer=remarks,
        sections=tuple(_sections(comparison, charts, source)),
        terminal=(Text(headline, "strong"), *table, *remarks),
        markdown=(*table, *remarks),
        missing=source.missing,
        summary=_summary(comparison, headline),
        metrics=tuple(metrics_of(comparison)),
        short_answer=ShortAnswer("", messages.short_answer(job)),
        results={"failed": (arm.label,)} if job.failed else {},
        rows_csv=source.table.to_csv(index=False),
    )


def _summary(comparison: Comparison, headline: str) -> dict[str, Any]:
    """Return the numbers, without the fields of a verdict."""
    numbers = {**summary_of(comparison), "headline": headline}
    return {name: value for name, value in numbers.items() if name not in ("baseline", "best", "rules", "contrasts")}


def _sections(comparison: Comparison, charts: Sequence[Chart], source: Source) -> Iterator[Section]:
    if figures := figures_table(comparison):
        yield Section("The training", (figures,))
    yield from chart_sections(charts)
    yield from job_sections(comparison.jobs, source.tracking_uri, "The job")
    yield Section(MEASURED, (Definitions((*([SCRIPTS] if comparison.has_scripts else []), *_DEFINITIONS)),))
    yield from ran_on_sections(comparison.jobs, source.environment, comparison.group)
