"""A recipe's published figures beside the measured ones. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from judging.intervals import Interval
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.equal_work import DOLLARS
from reports.model.numbers import NONE, figure, signed_interval, signed_percent
from reports.model.table import Cell, Heading, Row, Table

COLUMN = "published"
"""Column of `job_tables.jobs`' table: the tag `platform.published`, a JSON object."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """Published figures and their source."""

    source: str
    machine: str | None
    figures: Mapping[str, float]
    """By name, see `_FIGURES`."""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A published figure and the measured ones."""

    label: str
    published: str
    measured: Mapping[str, str]
    """By arm."""


def published_of(table: pd.DataFrame) -> Published | None:
    """Return the published figures that the jobs' experiment states; None if they are missing or invalid."""
    document = next((text for text in table.get(COLUMN, ()) if isinstance(text, str)), "null")
    try:
        read = json.loads(document)
        figures = {name: float(value) for name, value in read["figures"].items() if name in _FIGURES}
        return Published(source=str(read["source"]), machine=read.get("machine"), figures=figures)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def published_rows(published: Published, comparison: Comparison) -> list[PublishedRow]:
    """Return a row for each published figure, with each arm's measurement against the baseline."""
    return [
        PublishedRow(
            label=_FIGURES[name].label,
            published=_FIGURES[name].text(value),
            measured={each.arm.label: _FIGURES[name].measured(comparison, each) for each in comparison.contrasts},
        )
        for name, value in published.figures.items()
    ]


def published_table(published: Published, comparison: Comparison) -> Table:
    """Return the table that shows the workload's published results beside ours, with a column per arm."""
    arms = [contrast.arm.label for contrast in comparison.contrasts]
    rows = [
        Row(tuple(Cell(text=text) for text in (row.label, row.published, *(row.measured[arm] for arm in arms))))
        for row in published_rows(published, comparison)
    ]
    return Table(
        name="Published figures",
        headings=(
            *(Heading(label=label, head=label) for label in ("figure", "published")),
            *(Heading(label=arm, head=arm, unit="measured") for arm in arms),
        ),
        rows=tuple(rows),
        is_sortable=False,
    )


def published_note(published: Published, comparison: Comparison) -> str:
    """Return the source of the published figures and the limits of the comparison."""
    machine = f", on {published.machine}" if published.machine else ""
    return (
        f"Published by {published.source}{machine}; measured here against “{comparison.arms[0].label}” on the machines "
        "listed below. Other machines and versions give other figures: compare direction and size only."
    )


@dataclass(frozen=True)
class _Figure:
    label: str
    text: Callable[[float], str]
    measured: Callable[[Comparison, Contrast], str]


def _ratio_of(column: str) -> Callable[[Comparison, Contrast], str]:
    """Return a function that formats the change between the typical values of a column."""

    def text(comparison: Comparison, contrast: Contrast) -> str:
        mine, others = contrast.arm.summary(column), comparison.arms[0].summary(column)
        return signed_percent(mine.typical / others.typical) if mine and others and others.typical > 0 else NONE

    return text


def _with_interval(ratio: Interval | None) -> str:
    if ratio is None:
        return NONE
    return f"{signed_percent(ratio.estimate)} ({signed_interval(ratio)})"


def _throughput(comparison: Comparison, contrast: Contrast) -> str:
    return _with_interval(contrast.speed_up)


def _cost(comparison: Comparison, contrast: Contrast) -> str:
    if contrast.verdict.currency is DOLLARS:
        return _with_interval(contrast.verdict.ratio)
    return _ratio_of(DOLLARS.column)(comparison, contrast)


def _batch_size(comparison: Comparison, contrast: Contrast) -> str:
    mine, others = (arm.setting("hp_batch_size") for arm in (contrast.arm, comparison.arms[0]))
    return signed_percent(mine[0] / others[0]) if len(mine) == len(others) == 1 else NONE


def _loss(comparison: Comparison, contrast: Contrast) -> str:
    return _ratio_of(comparison.loss_column)(comparison, contrast)


def _break_even(comparison: Comparison, contrast: Contrast) -> str:
    point = next(iter(contrast.break_evens.values()), None)
    if point is None:
        return NONE
    if point.kind == "at least":
        return f"after {point.low:,.0f} samples or more"
    return point.kind if point.minutes is None else f"{figure(point.minutes)} min"


def _spot(comparison: Comparison, contrast: Contrast) -> str:
    saved = contrast.arm.summary("cost_spot_savings_percent")
    return f"{figure(saved.typical)} %" if saved else NONE


_FIGURES: Mapping[str, _Figure] = {
    "throughput_ratio": _Figure("steady samples/s", signed_percent, _throughput),
    "training_time_ratio": _Figure("training time", signed_percent, _ratio_of("train_runtime")),
    "cost_ratio": _Figure("cost", signed_percent, _cost),
    "batch_size_ratio": _Figure("batch size per device", signed_percent, _batch_size),
    "loss_ratio": _Figure("final loss", lambda ratio: "equal" if ratio == 1 else signed_percent(ratio), _loss),
    "break_even_minutes": _Figure("break-even", lambda minutes: f"{figure(minutes)} min", _break_even),
    "spot_savings_percent": _Figure("saved by spot", lambda percent: f"up to {figure(percent)} %", _spot),
}
