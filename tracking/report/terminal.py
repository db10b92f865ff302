"""The comparison in a terminal of 100 columns, plain where nobody looks at it."""

from __future__ import annotations

import sys
from typing import TextIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracking.report import words
from tracking.report.arms import Arm
from tracking.report.columns import columns
from tracking.report.comparison import Comparison, Contrast

WIDTH = 100
_STYLES = {"cheaper": "bold green", "not cheaper": "bold red", "inconclusive": "bold yellow", "not comparable": "bold"}


def print_comparison(comparison: Comparison, file: TextIO | None = None) -> None:
    """Print the answer, the table and each arm's verdict; without colours where `file` is not a terminal."""
    stream = file or sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else WIDTH, highlight=False)
    console.print(Text(words.headline(comparison), style="bold"))
    if comparison.arms:
        console.print(_table(comparison))
    for contrast in comparison.contrasts:
        outcome = contrast.verdict.outcome
        console.print(Text.assemble(f"{contrast.arm.label}: ", (outcome, _STYLES[outcome])))
        for sentence in _sentences(contrast, comparison.arms[0]):
            console.print(Padding(Text(sentence), (0, 0, 0, 2), expand=False))
    if comparison.jobs:
        console.print(Text(" ".join([words.spend_sentence(comparison), *words.caveat_sentences(comparison)])))


def _table(comparison: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    arm, *others = columns(comparison)
    table.add_column(arm.head, overflow="fold")
    for column in others:
        table.add_column(Text(column.head), justify="right", no_wrap=True)
    for row in comparison.arms:
        table.add_row(*(Text(column.value(row)) for column in (arm, *others)))
    return table


def _sentences(contrast: Contrast, baseline: Arm) -> list[str]:
    quality = contrast.verdict.quality
    told = [words.verdict_sentence(contrast, baseline)]
    told += [words.quality_sentence(quality)] if quality else []
    told += words.cache_sentences(contrast.arm)
    evens = [words.break_even_sentence(state, point, baseline) for state, point in contrast.break_evens.items()]
    return told + [f"Break-even: {sentence[:1].lower()}{sentence[1:]}" for sentence in evens]
