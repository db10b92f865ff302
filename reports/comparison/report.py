"""The report of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.comparison import messages
from reports.comparison.columns import columns, verdict_column
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.definitions import measured_section
from reports.comparison.factorial import factorial_of
from reports.comparison.fail_on import results_by_arm
from reports.comparison.figures import metrics_of, short_answer_of, summary_of
from reports.comparison.job_table import job_sections
from reports.comparison.look_table import looks_note, looks_table, short_looks, spent_sentence
from reports.comparison.published_figures import published_note, published_of, published_table
from reports.comparison.ran_on import ran_on_sections
from reports.model.blocks import Block, Chart, Charts, Definition, Definitions, Item, Items, Text
from reports.model.report import Report, Section
from reports.model.table import Table, build_table

TYPICAL = (
    "Typical values over the successful repeats, with the smallest and the largest value below. They are geometric "
    "means, and from five repeats on the medians of all pairs' means; losses and scores have their mean. The billable "
    "seconds and the cost include what failed jobs add. Compile and warm-up do not count towards the steady rate; they "
    "do count towards the billable seconds."
)


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


def comparison_report(comparison: Comparison, charts: Sequence[Chart], source: Source) -> Report:
    """Return the report with its verdicts."""
    headline, remarks = messages.headline(comparison), _remarks(comparison)
    verdicts = Items(tuple(_item(contrast, comparison) for contrast in comparison.contrasts))
    with_verdicts = settings_table(comparison, with_verdicts=True)
    settings = tuple(_settings(comparison))
    return Report(
        group=comparison.group,
        title=source.title,
        headline=headline,
        answer=tuple(_answer(comparison)),
        sections=tuple(_sections(comparison, charts, source)),
        terminal=(Text(headline, "strong"), *settings, verdicts, *remarks),
        markdown=(
            *((with_verdicts,) if with_verdicts else ()),
            *settings[1:],
            verdicts,
            *remarks,
            *short_looks(comparison),
        ),
        missing=source.missing,
        summary=summary_of(comparison),
        metrics=tuple(metrics_of(comparison)),
        short_answer=short_answer_of(comparison),
        results=results_by_arm(comparison),
        rules=comparison.rules if comparison.contrasts else None,
        comparison_table=with_verdicts,
        rows_csv=source.table.to_csv(index=False),
    )


def settings_table(comparison: Comparison, *, with_verdicts: bool = False) -> Table | None:
    """Return the table with a row per arm; None if there are no arms."""
    if not comparison.arms:
        return None
    verdict = [verdict_column(comparison)] if with_verdicts and comparison.contrasts else []
    return build_table("The settings", [*columns(comparison), *verdict], comparison.arms)


def unlike_notes(comparison: Comparison) -> tuple[Text, ...]:
    """Return the note below a table of settings on verdicts from other jobs than the table's; empty if unnecessary."""
    sentences = messages.unlike_sentences(comparison)
    return (Text(" ".join(sentences)),) if sentences else ()


def _settings(comparison: Comparison) -> Iterator[Block]:
    if table := settings_table(comparison):
        yield table
        yield from unlike_notes(comparison)


def chart_sections(charts: Sequence[Chart], note: str = "") -> tuple[Section, ...]:
    """Return the section with the charts; empty without charts."""
    notes = (Text(note, "small"),) if note else ()
    return (Section("Charts", (Charts(tuple(charts)), *notes)),) if charts else ()


def _answer(comparison: Comparison) -> Iterator[Block]:
    if comparison.jobs:
        yield Text(" ".join(filter(None, (spent_sentence(comparison), messages.cost_sentence(comparison)))), "muted")
        yield from map(Text, messages.caveat_sentences(comparison))
    if comparison.contrasts:
        yield Items(tuple(_item_of_page(contrast, comparison) for contrast in comparison.contrasts))


def _item_of_page(contrast: Contrast, comparison: Comparison) -> Item:
    """Return an arm's verdict without its break-even, which the page shows in a separate section."""
    texts = (
        Text(" ".join(messages.measured_sentences(contrast, comparison.arms[0]))),
        *(Text(sentence, "strong") for sentence in messages.despite_sentences(contrast.verdict)),
        *(Text(sentence, "muted") for sentence in messages.cache_sentences(contrast.arm)),
    )
    return Item(label=contrast.arm.label, outcome=contrast.verdict.outcome, texts=texts)


def _item(contrast: Contrast, comparison: Comparison) -> Item:
    sentences = messages.contrast_sentences(contrast, comparison.arms[0])
    return Item(label=contrast.arm.label, outcome=contrast.verdict.outcome, texts=tuple(map(Text, sentences)))


def _remarks(comparison: Comparison) -> tuple[Block, ...]:
    if not comparison.jobs:
        return ()
    sentences = [spent_sentence(comparison), messages.cost_sentence(comparison)]
    return (Text(" ".join(filter(None, [*sentences, *messages.caveat_sentences(comparison)]))),)


def _sections(comparison: Comparison, charts: Sequence[Chart], source: Source) -> Iterator[Section]:
    if comparison.arms:
        yield Section("The settings", (*_settings(comparison), Text(TYPICAL, "small")))
    if comparison.design and (looks := looks_table(comparison)):
        yield Section("The looks", (looks, Text(looks_note(comparison.design), "small")))
    if factorial := factorial_of(comparison):
        note = (
            f"{' '.join(factorial.sentences())} The 95 % interval is in brackets; below it are the typical "
            "billable instance seconds."
        )
        yield Section("Compiler and batch size separately", (factorial.table(), Text(note.strip(), "small")))
    if published := published_of(source.table):
        note = published_note(published, comparison)
        yield Section("Published figures of this recipe", (published_table(published, comparison), Text(note, "small")))
    yield from chart_sections(charts)
    if comparison.contrasts and not comparison.has_scripts:
        definitions = tuple(_break_even(contrast, comparison) for contrast in comparison.contrasts)
        yield Section("Break-even", (Definitions(definitions, is_card=True),))
    yield from job_sections(comparison.jobs, source.tracking_uri)
    yield measured_section(comparison)
    yield from ran_on_sections(comparison.jobs, source.environment, comparison.group)


def _break_even(contrast: Contrast, comparison: Comparison) -> Definition:
    sentences = [
        messages.break_even_sentence(state, point, comparison.arms[0]) for state, point in contrast.break_evens.items()
    ]
    return Definition(contrast.arm.label, " ".join(sentences) or "Not determined: there is nothing to compare.")
