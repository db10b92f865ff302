"""A report in a terminal of 100 columns, plain where nobody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO, TypeVar

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.comparison import messages as comparison_messages
from reports.comparison.columns import Column, columns
from reports.comparison.comparison import Comparison
from reports.formats.report import Report
from reports.overview import messages as overview_messages
from reports.overview.overview import Overview, TrackedGroup
from reports.probe import messages as probe_messages
from reports.probe.projections import Probes
from reports.sweep import messages as sweep_messages
from reports.sweep.columns import best_columns, trial_columns
from reports.sweep.sweep import Sweep

Row = TypeVar("Row")

MOST_PRINTED = 10
"""Trials in the terminal."""
MOST_GROUPS = 20
"""Groups of an overview there; its page holds all."""
WIDTH = 100
_STYLES = {"cheaper": "bold green", "not cheaper": "bold red", "inconclusive": "bold yellow", "not comparable": "bold"}


def print_report(report: Report, file: TextIO | None = None) -> None:
    """Print what a group of jobs tells."""
    if report.sweep:
        print_sweep(report.sweep, file)
    elif report.probes:
        print_probes(report.probes, file)
    else:
        print_comparison(report.comparison, file)
    for sentence in report.missing:
        _console(file).print(Text(sentence))


def print_sweep(sweep: Sweep, file: TextIO | None = None) -> None:
    """Print the answer, the command that trains it, the best settings and the best trials."""
    console = _console(file)
    console.print(Text(sweep_messages.headline(sweep), style="bold"))
    if sweep.train_command:
        console.print(Text(f"\n  {sweep.train_command}\n"), soft_wrap=True)
    if sweep.best_trials:
        console.print(_filled(best_columns(sweep), sweep.best_trials))
    for sentence in sweep_messages.sentences(sweep):
        console.print(Text(sentence))
    if sweep.trials:
        console.print(_filled(trial_columns(sweep, with_reasons=False), sweep.trials[:MOST_PRINTED]))


def print_probes(probes: Probes, file: TextIO | None = None) -> None:
    """Print the answer, the table of projections and what else there is to know."""
    console = _console(file)
    console.print(Text(probe_messages.headline(probes), style="bold"))
    if probes.projected:
        console.print(_filled(probe_messages.columns(probes), probes.projected))
    for sentence in probe_messages.sentences(probes):
        console.print(Text(sentence))
    if probes.projected:
        console.print(Text(probe_messages.CAVEAT, style="dim"))


def print_comparison(comparison: Comparison, file: TextIO | None = None) -> None:
    """Print the answer, the table and each arm's verdict; without colours where `file` is not a terminal."""
    console = _console(file)
    console.print(Text(comparison_messages.headline(comparison), style="bold"))
    if comparison.arms:
        console.print(_filled(columns(comparison), comparison.arms))
    for contrast in comparison.contrasts:
        outcome = contrast.verdict.outcome
        console.print(Text.assemble(f"{contrast.arm.label}: ", (outcome, _STYLES[outcome])))
        for sentence in comparison_messages.contrast_sentences(contrast, comparison.arms[0]):
            console.print(Padding(Text(sentence), (0, 0, 0, 2), expand=False))
    if comparison.jobs:
        console.print(
            Text(
                " ".join(
                    [comparison_messages.spend_sentence(comparison), *comparison_messages.caveat_sentences(comparison)]
                )
            )
        )


def print_overview(overview: Overview, file: TextIO | None = None) -> None:
    """Print the newest groups with their answers, what was paid by month and by end, and the whole."""
    console = _console(file)
    for group in overview.groups[:MOST_GROUPS]:
        console.print(Text.assemble((overview_messages.command(group), "bold"), f"  {_facts(group)}"))
        for told in (group.headline or overview_messages.NO_REPORT, overview_messages.arms(group)):
            console.print(Padding(Text(told), (0, 0, 0, 2), expand=False))
    if (left := len(overview.groups) - MOST_GROUPS) > 0:
        console.print(Text(f"... and {left:,} older ones, which the page has."))
    if overview.groups:
        console.print(_filled(overview_messages.bill_columns(overview, "month"), overview.months))
        console.print(_filled(overview_messages.bill_columns(overview, "status"), overview.statuses))
    console.print(Text(overview_messages.headline(overview), style="bold"))
    for sentence in overview_messages.sentences(overview):
        console.print(Text(sentence))


def _facts(group: TrackedGroup) -> str:
    bill = group.bill
    usd = f", {sweep_messages.money(bill.usd)} USD" if bill.usd >= 0 else ""
    paid = f"{comparison_messages.figure(bill.billable_instance_seconds)} s{usd}"
    return f"{group.started_at:%Y-%m-%d %H:%M}  {overview_messages.outcomes(bill)}  {paid}  {group.id or 'no group'}"


def _console(file: TextIO | None) -> Console:
    stream = file or sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDTH, highlight=False)


def _empty_table(first: str, heads: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column(first, overflow="fold")
    for head in heads:
        table.add_column(Text(head), justify="right", no_wrap=True)
    return table


def _filled(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    first, *others = columns
    table = _empty_table(first.head, [column.head for column in others])
    for row in rows:
        table.add_row(*(Text(column.value(row)) for column in columns))
    return table
