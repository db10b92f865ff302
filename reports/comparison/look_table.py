"""The looks at a comparison that ran in waves: what each one showed, and what stopped the arms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from judging.design import Design
from judging.sequential import Look, Reason
from judging.waves import Progress
from reports.comparison.comparison import Comparison
from reports.model.blocks import Block, Text
from reports.model.numbers import change, change_interval, percent
from reports.model.table import Cell, Heading, Row, Table
from reports.model.wording import counted

_ENDINGS: dict[Reason, str] = {
    "cheaper": "stops: it is cheaper",
    "dearer": "stops: it is dearer",
    "no gain worth having": "stops: no gain worth having is left",
    "quality lost": "stops: its quality is worse",
    "quality not measured": "stops: its quality is not known",
    "too many failures": "stops: it fails too often",
    "too few jobs succeeded": "stops: too few jobs succeeded",
    "doomed": "stops: its jobs fail at once",
    "last look": "ends undecided: this was the last look",
}


def look_sentence(look: Look) -> str:
    """Return the result of a look, and whether the arm continues."""
    return f"{_ratio(look)}; {_ending(look)}"


def spent_sentence(comparison: Comparison) -> str:
    """Return how many jobs the comparison needed of those that it might have run; empty unless it ran in waves."""
    design, progress = comparison.design, comparison.progress
    if design is None or progress is None or len(comparison.arms) < 2:
        return ""
    most = len(comparison.arms) * design.looks[-1]
    if progress.due:
        left = counted(len(progress.due), "job")
        return f"The comparison has not ended: {left} of the current wave of repeats are missing."
    if len(progress.begun) == most:
        return f"It took all {most} jobs to decide." if _has_decided(progress) else ""
    return f"The comparison stopped by itself after {len(progress.begun)} of at most {most} jobs."


def looks_table(comparison: Comparison, *, is_short: bool = False) -> Table | None:
    """Return the table with a row per look and a column per arm; None unless the comparison ran in waves.

    With `is_short`, the cells have no details: their text includes whether the arm continues.
    """
    design, progress = comparison.design, comparison.progress
    if design is None or progress is None or not progress.looks:
        return None
    labels = [arm.label for arm in comparison.arms[1:]]
    headings = [Heading(label="repeats", head="repeats"), *(Heading(label=label, head=label) for label in labels)]
    rows = tuple(_row(design, progress, number, labels, is_short=is_short) for number in range(len(progress.looks)))
    return Table(name="The looks", headings=tuple(headings), rows=rows, is_sortable=False)


def short_looks(comparison: Comparison) -> tuple[Block, ...]:
    """Return the looks for a run's description, which shows no details of cells; empty unless it ran in waves."""
    table = looks_table(comparison, is_short=True)
    return (Text("The looks:"), table) if table else ()


def looks_summary(comparison: Comparison | None) -> dict[str, Any]:
    """Return the looks and why each arm stopped, for `summary.json`; empty lists without looks."""
    progress = comparison.progress if comparison else None
    if progress is None:
        return {"looks": [], "stopped": {}}
    looks = [
        {"repeats": repeats, "arms": {label: asdict(look) for label, look in looks.items()}}
        for repeats, looks in zip(progress.design.looks, progress.looks, strict=False)
    ]
    return {"looks": looks, "stopped": dict(progress.stopped)}


def looks_note(design: Design) -> str:
    """Return the rules of the looks in a few sentences."""
    return (
        f"After each wave, an arm stops if it is shown to be cheaper or dearer, or if a gain of "
        f"{percent(1 - design.least_gain)} % is ruled out. The intervals allow for looking often: in 95 % of "
        f"comparisons, no equal arm is called cheaper or dearer at any look. Judged by version {design.rules} of the "
        f"rules; docs/measuring.md lists their assumptions."
    )


def _row(design: Design, progress: Progress, number: int, labels: list[str], *, is_short: bool) -> Row:
    return Row((Cell(text=f"after {design.looks[number]}"), *_cells(progress, number, labels, is_short=is_short)))


def _cells(progress: Progress, number: int, labels: list[str], *, is_short: bool) -> Iterator[Cell]:
    for label in labels:
        look = progress.looks[number].get(label)
        if look is None:
            has_results = any(label in looks for looks in progress.looks)
            yield Cell(text="stopped" if has_results else "too few jobs")
            continue
        yield Cell(text=look_sentence(look)) if is_short else Cell(text=_ratio(look), detail=_ending(look))


def _ending(look: Look) -> str:
    return _ENDINGS[look.stops] if look.stops else "continues"


def _ratio(look: Look) -> str:
    """Return the cost ratio with its interval, and the one with a warm cache if some jobs started with a cold one."""
    text = f"{change(look.ratio.estimate)} ({change_interval(look.ratio)})"
    return f"{text}, with a warm cache {change(look.warm.estimate)}" if look.warm else text


def _has_decided(progress: Progress) -> bool:
    return any(reason != "last look" for reason in progress.stopped.values())
