"""Tables of a comparison: the settings, compiler and batch size separately, looks, jobs, and published figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from judging.design import Design
from judging.intervals import Interval
from judging.sequential import Look, Reason
from judging.summaries import Summary, summary
from judging.waves import Progress
from reports.comparison.arms import STEADY, Arm, Job
from reports.comparison.comparison import END_TO_END, Comparison, Contrast
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.comparison.messages import noun
from reports.model.numbers import (
    NONE,
    change,
    change_interval,
    counted,
    figure,
    percent,
    rate,
    run_url,
    score,
    short,
    signed_interval,
    signed_percent,
)
from reports.model.report import Block, Cell, Column, Heading, Row, Section, Table, Text

_LOSSES = {
    "eval_loss": ("validation loss", "val.\nloss"),
    "train_loss": ("training loss", "train\nloss"),
    "loss": ("last training loss", "last\nloss"),
}

_OPTIONAL = ("batch", "learning rate", "steady", "end to end", "compile + warm-up", "training")
"""Columns that are left out if no arm has a value. A script measured from outside may not record its steps."""


def columns(comparison: Comparison) -> list[Column[Arm]]:
    """Return the table's columns, the arm's name first."""
    loss, measure = comparison.loss_column, comparison.measure
    has_price = any(arm.values(DOLLARS.column) for arm in comparison.arms)
    shown = [
        Column("arm", "arm", "", lambda arm: arm.label, lambda arm: _baseline_note(comparison, arm)),
        Column("batch", "batch", "", lambda arm: _joined(arm.setting("hp_batch_size"), _count)),
        Column("learning rate", "learn.\nrate", "", lambda arm: _joined(arm.setting("hp_learning_rate"), rate)),
        _metric("steady", "steady\nsamples\n/s", "samples/s", STEADY),
        _metric("end to end", "end to\nend\n/s", "samples/s", END_TO_END),
        _column("compile + warm-up", "compile,\nwarm-up\ns", "s", lambda arm: summary(arm.setup_seconds)),
        _metric("training", "train\ns", "s", _training(comparison)),
        _cost(comparison, "billable", "billed\ns", "s", BILLABLE),
        *([_cost(comparison, "cost", "cost\nUSD", "USD", DOLLARS.column)] if has_price else []),
        _metric(*_LOSSES[loss], "", loss, score),
    ]
    if measure and measure.column != loss:
        shown.append(_metric(measure.label, measure.label.replace(" ", "\n"), "", measure.column, score))
    if any(arm.values("target_reached") for arm in comparison.arms):
        shown.append(Column("target reached", "target\nmet", "", _target, _target_seconds))
    shown = [column for column in shown if column.label not in _OPTIONAL or _has_values(column, comparison)]
    repeats = Column[Arm]("repeats", "n", "", lambda arm: str(len(arm.compared)))
    failed = Column[Arm]("failed", "fail", "", lambda arm: str(len(arm.failed)))
    stopped = Column[Arm]("stopped", "stop", "", lambda arm: str(len(arm.stopped)))
    return [*shown, repeats, failed, *([stopped] if any(arm.stopped for arm in comparison.arms) else [])]


def verdict_column(comparison: Comparison) -> Column[Arm]:
    """Return the verdict column, for tables that are shown without the sentences about each arm."""
    verdicts: dict[str, str] = {contrast.arm.label: contrast.verdict.outcome for contrast in comparison.contrasts}
    for contrast in comparison.unlike_shown(BILLABLE, DOLLARS.column):
        assert contrast.verdict.ratio is not None
        verdicts[contrast.arm.label] += f" ({change(contrast.verdict.ratio.estimate)}, from other jobs)"
    return Column("verdict", "verdict", "", lambda arm: verdicts.get(arm.label, "baseline"), kind="text")


def _baseline_note(comparison: Comparison, arm: Arm) -> str:
    return "baseline" if comparison.contrasts and arm is comparison.baseline else ""


def _has_values(column: Column[Arm], comparison: Comparison) -> bool:
    nothing_succeeded = not any(arm.succeeded for arm in comparison.arms)
    return nothing_succeeded or any(column.value(arm) != NONE for arm in comparison.arms)


def _training(comparison: Comparison) -> str:
    """Return the column with the training seconds: those of the steady steps, or else those that Trainer reported."""
    steady, whole = "time_train_steady_seconds", "time_train_seconds"
    return steady if any(arm.values(steady) for arm in comparison.arms) else whole


def _count(value: float) -> str:
    return f"{value:g}"


def _joined(values: list[float], text: Callable[[float], str]) -> str:
    return ", ".join(map(text, values)) or NONE


def _metric(label: str, head: str, unit: str, column: str, text: Callable[[float], str] = figure) -> Column[Arm]:
    return _column(label, head, unit, lambda arm: arm.summary(column), text)


def _cost(comparison: Comparison, label: str, head: str, unit: str, column: str) -> Column[Arm]:
    """Return a column with the cost of a usable model."""
    successful = _metric(label, head, unit, column)

    def value(arm: Arm) -> str:
        cost = comparison.cost(arm, column)
        return NONE if cost is None else figure(cost)

    return replace(successful, value=value)


def _column(
    label: str,
    head: str,
    unit: str,
    summarized: Callable[[Arm], Summary | None],
    text: Callable[[float], str] = figure,
) -> Column[Arm]:
    def value(arm: Arm) -> str:
        values = summarized(arm)
        return text(values.typical) if values else NONE

    def extremes(arm: Arm) -> str:
        values = summarized(arm)
        low, high = (text(values.low), text(values.high)) if values else ("", "")
        return f"{low}–{high}" if low != high else ""

    return Column(label, head, unit, value, extremes)


def _target(arm: Arm) -> str:
    reached = arm.values("target_reached")
    return f"{sum(value > 0 for value in reached)} of {len(reached)}" if reached else NONE


def _target_seconds(arm: Arm) -> str:
    seconds = arm.summary("target_seconds")
    return f"after {figure(seconds.typical)} s" if seconds else ""


@dataclass(frozen=True, kw_only=True)
class Factorial:
    """Arms by compiler and batch size; some pairs may be missing."""

    compilers: tuple[str, ...]
    """The baseline's first."""
    batch_sizes: tuple[float, ...]
    """Samples per device, the baseline's first."""
    arms: Mapping[tuple[str, float], Arm]
    contrasts: Mapping[tuple[str, float], Contrast]
    """Contrasts of the arms other than the baseline."""
    costs: Mapping[tuple[str, float], float]
    """Typical costs in billable instance seconds, as the verdicts compare them; some may be missing."""

    def texts(self, compiler: str, batch_size: float) -> tuple[str, str]:
        """Return a cell's texts: the change against the baseline with its interval, and the typical cost."""
        arm, contrast = self.arms.get((compiler, batch_size)), self.contrasts.get((compiler, batch_size))
        cost = self.costs.get((compiler, batch_size))
        detail = "" if cost is None else f"{figure(cost)} s"
        if arm is None:
            return NONE, ""
        if contrast is None:
            return "baseline", detail
        ratio = contrast.verdict.ratio
        return (f"{change(ratio.estimate)} ({change_interval(ratio)})" if ratio else contrast.verdict.outcome), detail

    def sentences(self) -> list[str]:
        """Return the effects of the compiler alone, the batch size alone, and both together."""
        compiler, batch_size = self.compilers[0], self.batch_sizes[0]
        sentences = []
        for (other, size), contrast in self.contrasts.items():
            if contrast.verdict.ratio is None:
                continue
            if size == batch_size:
                factors = f"{other} alone, at batch {batch_size:g}"
            elif other == compiler:
                factors = f"Batch {size:g} alone, under {compiler}"
            else:
                factors = f"{other} and batch {size:g} together"
            sentences.append(f"{factors}: {change(contrast.verdict.ratio.estimate)} {noun(contrast.verdict)}.")
        return sentences

    def table(self) -> Table:
        """Return the table, with compilers as rows and batch sizes as columns."""
        labels = ("compiler", *(f"batch {size:g}" for size in self.batch_sizes))
        rows = []
        for compiler in self.compilers:
            texts = [(compiler, ""), *(self.texts(compiler, size) for size in self.batch_sizes)]
            rows.append(Row(tuple(Cell(text=text, detail=detail) for text, detail in texts)))
        return Table(
            name="Compiler and batch size separately",
            headings=tuple(Heading(label=label, head=label) for label in labels),
            rows=tuple(rows),
            is_sortable=False,
        )


def factorial_of(comparison: Comparison) -> Factorial | None:
    """Return the factorial; None with fewer than three pairs, or if two arms share a compiler and batch size."""
    arms = {factors: arm for arm in comparison.arms if (factors := _factors(arm))}
    compilers = tuple(dict.fromkeys(compiler for compiler, _ in arms))
    batch_sizes = tuple(dict.fromkeys(size for _, size in arms))
    if len(arms) < max(3, len(comparison.arms)) or min(len(compilers), len(batch_sizes)) < 2:
        return None
    contrasts = {factors: each for each in comparison.contrasts if (factors := _factors(each.arm))}
    costs = {factors: cost for factors, arm in arms.items() if (cost := comparison.cost(arm, BILLABLE)) is not None}
    return Factorial(compilers=compilers, batch_sizes=batch_sizes, arms=arms, contrasts=contrasts, costs=costs)


def _factors(arm: Arm) -> tuple[str, float] | None:
    """Return an arm's compiler and batch size; None if its jobs differ in either."""
    compilers = {job.text.get("compiler") for job in arm.jobs}
    sizes = arm.setting("hp_batch_size")
    compiler = next(iter(compilers))
    return (compiler, sizes[0]) if len(compilers) == len(sizes) == 1 and compiler else None


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
    return f"{_look_ratio(look)}; {_ending(look)}"


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
    rows = tuple(
        _look_row(design, progress, number, labels, is_short=is_short) for number in range(len(progress.looks))
    )
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


def _look_row(design: Design, progress: Progress, number: int, labels: list[str], *, is_short: bool) -> Row:
    return Row((Cell(text=f"after {design.looks[number]}"), *_look_cells(progress, number, labels, is_short=is_short)))


def _look_cells(progress: Progress, number: int, labels: list[str], *, is_short: bool) -> Iterator[Cell]:
    for label in labels:
        look = progress.looks[number].get(label)
        if look is None:
            has_results = any(label in looks for looks in progress.looks)
            yield Cell(text="stopped" if has_results else "too few jobs")
            continue
        yield Cell(text=look_sentence(look)) if is_short else Cell(text=_look_ratio(look), detail=_ending(look))


def _ending(look: Look) -> str:
    return _ENDINGS[look.stops] if look.stops else "continues"


def _look_ratio(look: Look) -> str:
    """Return the cost ratio with its interval, and the one with a warm cache if some jobs started with a cold one."""
    text = f"{change(look.ratio.estimate)} ({change_interval(look.ratio)})"
    return f"{text}, with a warm cache {change(look.warm.estimate)}" if look.warm else text


def _has_decided(progress: Progress) -> bool:
    return any(reason != "last look" for reason in progress.stopped.values())


_MAX_CHARACTERS = 300
"""Length at which a failure message is cut."""

_HEADINGS = (
    Heading(label="job", head="job", kind="text"),
    Heading(label="status", head="status", kind="text"),
    Heading(label="cache", head="cache", kind="text"),
    Heading(label="billable", head="billable", unit="s"),
    Heading(label="run", head="run", kind="text"),
)


def job_sections(jobs: Sequence[Job], tracking_uri: str, title: str = "Every job") -> tuple[Section, ...]:
    """Return the section with the table of these jobs; empty without jobs."""
    rows = tuple(_job_row(job, job_url(tracking_uri, job)) for job in jobs)
    return (Section(title, (Table(name=title, headings=_HEADINGS, rows=rows, style="jobs"),)),) if rows else ()


def job_url(tracking_uri: str, job: Job) -> str | None:
    """Return the address of a job's run; None for a store that has no web address."""
    return run_url(tracking_uri, job.experiment_id, job.run_id)


def _job_row(job: Job, url: str | None) -> Row:
    seconds, status = job.number(BILLABLE), "stopped" if job.stopped else job.status.lower()
    return Row(
        (
            Cell(text=job.title),
            Cell(text=status, badge=job.status, error=_failure(job), detail=_mark(job)),
            Cell(text=job.cache_state),
            Cell(text=figure(seconds), sort=seconds if 0 < seconds < math.inf else None),
            Cell(text=job.name, url=url, code="" if url else job.run_id),
        )
    )


def _mark(job: Job) -> str:
    return f"disturbed: {', '.join(job.disturbances)}" if job.disturbances else ""


def _failure(job: Job) -> str:
    if not job.failed:
        return ""
    message = short(job.text.get("failure_message") or "no message", _MAX_CHARACTERS)
    return f"{job.text.get('failure_class') or 'unclassified'}: {message}"


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


def _cost_change(comparison: Comparison, contrast: Contrast) -> str:
    if contrast.verdict.currency is DOLLARS:
        return _with_interval(contrast.verdict.ratio)
    return _ratio_of(DOLLARS.column)(comparison, contrast)


def _batch_size(comparison: Comparison, contrast: Contrast) -> str:
    mine, others = (arm.setting("hp_batch_size") for arm in (contrast.arm, comparison.arms[0]))
    return signed_percent(mine[0] / others[0]) if len(mine) == len(others) == 1 else NONE


def _loss(comparison: Comparison, contrast: Contrast) -> str:
    return _ratio_of(comparison.loss_column)(comparison, contrast)


def _break_even_text(comparison: Comparison, contrast: Contrast) -> str:
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
    "cost_ratio": _Figure("cost", signed_percent, _cost_change),
    "batch_size_ratio": _Figure("batch size per device", signed_percent, _batch_size),
    "loss_ratio": _Figure("final loss", lambda ratio: "equal" if ratio == 1 else signed_percent(ratio), _loss),
    "break_even_minutes": _Figure("break-even", lambda minutes: f"{figure(minutes)} min", _break_even_text),
    "spot_savings_percent": _Figure("saved by spot", lambda percent: f"up to {figure(percent)} %", _spot),
}
