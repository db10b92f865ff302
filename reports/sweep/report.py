"""The report of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.comparison.definitions import MEASURED
from reports.comparison.job_table import job_sections
from reports.comparison.look_table import looks_note, looks_table, short_looks
from reports.comparison.ran_on import ran_on_sections
from reports.comparison.report import TYPICAL, Source, chart_sections, settings_table, unlike_notes
from reports.model.blocks import Block, Chart, Command, Definition, Definitions, Sentences, Text
from reports.model.report import Report, Section
from reports.sweep import messages
from reports.sweep.figures import metrics_of, short_answer_of, summary_of
from reports.sweep.headline import headline
from reports.sweep.results import results_of_winner
from reports.sweep.sweep import Sweep
from reports.sweep.tables import best_table, cost_table, factorial_table, trial_table
from reports.sweep.units import cost_name, quality_name

MAX_TRIALS = 200
"""Number of trials on a page; `jobs.csv` has all of them."""
MAX_LISTED = 10
"""Number of trials in the terminal and in the run's description."""
_DEFINITIONS = (
    Definition(
        "Billable seconds",
        "Wall-clock time from the start of downloading to the end of uploading, as the service bills it, times the "
        "instances of a job. Provisioning is not included.",
    ),
    Definition(
        "Interval",
        "Cost of the repeats over that of the base's repeats, with its 95 % interval. Trials do not count, because "
        "the best of many is partly the luckiest one. Each repeat has another seed, so with a target the interval "
        "includes the spread of the samples that seeds need.",
    ),
    Definition(
        "Calibration",
        "One job per compiler trains a few steps at every batch size. It measures the seconds per step with the 95 % "
        "interval of their mean, the memory of the largest batch, and which sizes do not fit. The fitted line is a "
        "fixed time per step plus a time per sample.",
    ),
    Definition(
        "Whole grid",
        "The cost of the settings that were trained to the end. For the others: the fitted time per sample, times the "
        "samples that trials with the same batch size needed, plus a job's time outside its steps.",
    ),
)


def sweep_report(sweep: Sweep, charts: Sequence[Chart], source: Source, chart_note: str = "") -> Report:
    """Return the report of a sweep; `chart_note` is shown below the charts."""
    answer, remarks = headline(sweep), Sentences(tuple(messages.sentences(sweep)))
    lead: tuple[Block, ...] = (*_command(sweep), *([best_table(sweep)] if sweep.best_trials else []), remarks)
    short_trials = (trial_table(sweep, MAX_LISTED, with_reasons=False),) if sweep.trials else ()
    tables = (*((trial_table(sweep, MAX_LISTED),) if sweep.trials else ()), cost_table(sweep))
    return Report(
        group=sweep.group,
        title=source.title,
        headline=answer,
        answer=(*_command(sweep), remarks),
        sections=tuple(_sections(sweep, charts, source, chart_note)),
        terminal=(Text(answer, "strong"), *lead, *short_trials),
        markdown=(*lead, *tables, *(short_looks(sweep.confirmation) if sweep.confirmation else ())),
        missing=source.missing,
        summary=summary_of(sweep),
        metrics=tuple(metrics_of(sweep)),
        results=results_of_winner(sweep),
        rules=sweep.rules,
        short_answer=short_answer_of(sweep),
        rows_csv=source.table.to_csv(index=False),
    )


def _command(sweep: Sweep) -> tuple[Block, ...]:
    return (Command("Train the best trial's setting:", sweep.train_command),) if sweep.train_command else ()


def _sections(sweep: Sweep, charts: Sequence[Chart], source: Source, chart_note: str) -> Iterator[Section]:
    if sweep.best_trials:
        title = "Pareto-optimal settings" if sweep.spec.is_front else "The best of each compiler setting"
        yield Section(title, (best_table(sweep),))
    if factorial := factorial_table(sweep):
        note = (
            f"Change in {cost_name(sweep)} against {sweep.base} with its 95 % interval, and the typical value of the "
            "repeats."
        )
        yield Section("Compiler and batch size separately", (factorial, Text(note, "small")))
    yield from chart_sections(charts, chart_note)
    if sweep.jobs:
        yield Section("Cost of the sweep", (cost_table(sweep),))
    if sweep.trials:
        yield Section(
            "The trials, best first", (trial_table(sweep, MAX_TRIALS, source.tracking_uri), *_left_out(sweep))
        )
    if sweep.confirmation and (repeats := settings_table(sweep.confirmation)):
        yield Section("The repeats", (repeats, *unlike_notes(sweep.confirmation), Text(TYPICAL, "small")))
    if sweep.confirmation and sweep.confirmation.design and (looks := looks_table(sweep.confirmation)):
        yield Section("The looks", (looks, Text(looks_note(sweep.confirmation.design), "small")))
    title = "Calibrations, base setting and repeats"
    yield from job_sections(sweep.other_jobs, source.tracking_uri, title)
    yield Section(MEASURED, (Definitions((*_goal(sweep), *_DEFINITIONS)),))
    yield from ran_on_sections(sweep.jobs, source.environment, sweep.group)


def _left_out(sweep: Sweep) -> tuple[Text, ...]:
    n = len(sweep.trials)
    return (Text(f"The first {MAX_TRIALS} of {n} trials; jobs.csv has all.", "small"),) if n > MAX_TRIALS else ()


def _goal(sweep: Sweep) -> Iterator[Definition]:
    if sweep.spec.target is not None:
        yield Definition(
            "To the target",
            f"A job ends at the evaluation that reaches {quality_name(sweep)} {sweep.spec.target:g}. Its whole cost "
            "counts, however many samples it saw. A trial that was stopped, or that ended without reaching the target, "
            "has no cost to compare.",
        )
    if sweep.spec.bound is not None:
        yield Definition(
            "Bound",
            f"All jobs train on the same samples. The best trial is the cheapest one with {quality_name(sweep)} "
            f"{sweep.spec.bound:g} or better.",
        )
