"""Tables of a comparison: the settings, compiler and batch size separately, looks, jobs, and published figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from statistics import fmean
from typing import Any

import pandas as pd

from judging.sequential import Look, Reason
from judging.summaries import Summary, gain_percent, summary
from reports.comparison.comparison import Comparison, Contrast
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
from reports.model.report import Cell, Column, Section, Table, Text, build_table, number_cell
from tracking.recorded.arms import BILLABLE, DOLLARS, Arm, work_unit
from tracking.recorded.recorded_job import TRAINER_RATE, Job

_LOSSES = {
    "eval_loss": ("validation loss", "val.\nloss"),
    "train_loss": ("training loss", "train\nloss"),
    "loss": ("last training loss", "last\nloss"),
}


def figures(comparison: Comparison) -> list[Column[Arm]]:
    """Return the columns with an arm's settings and figures. Scripts measured from outside may not record them all."""
    loss, measure, steady_seconds = comparison.loss_column, comparison.measure, "time_train_steady_seconds"
    has_bills = any(contrast.verdict.bills for contrast in comparison.contrasts)
    unit = work_unit(*comparison.arms)
    has_steady_seconds = any(arm.values(steady_seconds) for arm in comparison.arms)

    def figure_of(column: str, text: Callable[[float], str] = figure) -> Callable[[Arm], Cell]:
        return lambda arm: summary_cell(arm.summary(column), text, comparison.typical(arm, column))

    shown = [
        Column("batch", _setting("hp_batch_size", "{:g}".format), name="batch size", is_optional=True),
        Column("learning rate", _setting("hp_learning_rate", rate), head="learn.\nrate", is_optional=True),
        Column(
            "steady",
            figure_of(f"throughput_steady_{unit}_per_second"),
            head=f"steady\n{unit}\n/s",
            unit=f"{unit}/s",
            name="steady rate",
            is_optional=True,
            metric=f"steady_{unit}_per_second",
        ),
        Column(
            "end to end",
            figure_of(f"throughput_end_to_end_{unit}_per_second"),
            head="end to\nend\n/s",
            unit="samples/s",
            name="end-to-end rate",
            is_optional=True,
        ),
        Column(
            "compile + warm-up",
            lambda arm: summary_cell(summary(arm.setup_seconds)),
            head="compile,\nwarm-up\ns",
            unit="s",
            is_optional=True,
        ),
        Column(
            "training",
            figure_of(steady_seconds if has_steady_seconds else "time_train_seconds"),
            head="train\ns",
            unit="s",
            name="steady training",
            is_optional=True,
        ),
        Column(
            "billable",
            figure_of(BILLABLE),
            head="billed\ns",
            unit="s",
            metric="billable_instance_seconds",
        ),
        Column(
            "mean bill",
            lambda arm: summary_cell(summary(arm.positive(BILLABLE) if has_bills else [], fmean)),
            head="mean\nbill\ns",
            unit="s",
            is_optional=True,
        ),
        Column("cost", figure_of(DOLLARS.column), unit="USD", metric="usd", is_optional=True),
        Column(_LOSSES[loss][0], figure_of(loss, score), head=_LOSSES[loss][1], metric=loss),
    ]
    if measure and measure.column != loss:
        shown.append(Column(measure.label, figure_of(measure.column, score), metric=measure.column))
    return [*shown, Column("target reached", _reached, head="target\nmet", is_optional=True)]


def settings_table(comparison: Comparison, *, with_verdicts: bool = False) -> Table | None:
    """Return the table with a row per arm; None if there are no arms.

    With verdicts, it makes sense without the sentences about each arm.
    """
    if not comparison.arms:
        return None
    judged = comparison.baseline if comparison.contrasts else None
    verdicts: dict[str, str] = {contrast.arm.label: contrast.verdict.outcome for contrast in comparison.contrasts}
    verdict: Column[Arm] = Column("verdict", lambda arm: verdicts.get(arm.label, "baseline"), kind="text")
    stopped: Column[Arm] = Column("stopped", lambda arm: len(arm.stopped), head="stop")
    columns = [
        Column[Arm]("arm", lambda arm: Cell(text=arm.label, detail="baseline" if arm is judged else "")),
        *figures(comparison),
        Column[Arm]("repeats", lambda arm: len(arm.compared), head="n"),
        Column[Arm]("failed", lambda arm: len(arm.failed), head="fail"),
        *([stopped] if any(arm.stopped for arm in comparison.arms) else []),
        *([verdict] if with_verdicts and comparison.contrasts else []),
    ]
    return build_table("The settings", columns, comparison.arms)


def training_table(comparison: Comparison) -> Table | None:
    """Return the table of a single training with a row per figure; None without figures."""
    [arm] = comparison.arms
    shown = [(column, cell) for column in figures(comparison) if (cell := column.cell(arm)).text != NONE]
    columns = [
        Column[tuple[Column[Arm], Cell]]("figure", lambda each: each[0].name or each[0].label, kind="text"),
        Column("value", lambda each: replace(each[1], text=f"{each[1].text} {each[0].unit}".strip(), detail="")),
    ]
    return build_table("The training", columns, shown) if shown else None


def summary_cell(values: Summary | None, text: Callable[[float], str] = figure, typical: float | None = None) -> Cell:
    """Return the typical value, with the extremes below it if they differ."""
    if values is None:
        return Cell(text=NONE)
    low, high = text(values.low), text(values.high)
    return number_cell(values.typical if typical is None else typical, text, f"{low}–{high}" if low != high else "")


def _setting(column: str, text: Callable[[float], str]) -> Callable[[Arm], Cell]:
    def cell(arm: Arm) -> Cell:
        values = arm.setting(column)
        return Cell(text=", ".join(map(text, values)) or NONE, number=values[0] if values else None)

    return cell


def _reached(arm: Arm) -> Cell:
    reached, seconds = arm.values("target_reached"), arm.summary("target_seconds")
    count = sum(value > 0 for value in reached)
    detail = f"after {figure(seconds.typical)} s" if seconds else ""
    return Cell(text=f"{count} of {len(reached)}", number=count, detail=detail) if reached else Cell(text=NONE)


def factorial_of(comparison: Comparison) -> Table | None:
    """Return the table of compilers and batch sizes, with their separate and joint effects on the cost.

    None with fewer than three pairs, or if two arms share a compiler and batch size, or if an arm's jobs differ in one.
    """
    arms: dict[tuple[str, float], Arm] = {}
    for arm in comparison.arms:
        names, batches = {job.text.get("compiler") or "" for job in arm.jobs}, arm.setting("hp_batch_size")
        if len(names) == len(batches) == 1 and "" not in names:
            arms[names.pop(), batches[0]] = arm
    compilers, sizes = (list(dict.fromkeys(factor)) for factor in zip(*arms, strict=True)) if arms else ([], [])
    if len(arms) < max(3, len(comparison.arms)) or min(len(compilers), len(sizes)) < 2:
        return None
    verdicts = {contrast.arm.label: contrast.verdict for contrast in comparison.contrasts}

    def cell(size: float, compiler: str) -> Cell:
        arm = arms.get((compiler, size))
        if arm is None:
            return Cell(text=NONE)
        cost, verdict = comparison.typical(arm, BILLABLE), verdicts.get(arm.label)
        detail = "" if cost is None else f"{figure(cost)} s"
        if verdict is None:
            return Cell(text="baseline", detail=detail)
        ratio = verdict.ratio
        text = f"{change(ratio.estimate)} ({change_interval(ratio)})" if ratio else verdict.outcome
        return Cell(text=text, number=gain_percent(ratio.estimate) if ratio else None, detail=detail)

    columns = [Column[str](f"batch {size:g}", partial(cell, size)) for size in sizes]
    first = Column[str]("compiler", lambda compiler: compiler)
    return build_table("Compiler and batch size separately", [first, *columns], compilers)


_ENDINGS: dict[Reason | None, str] = {
    None: "continues",
    "cheaper": "stops: it is cheaper",
    "dearer": "stops: it is dearer",
    "no gain worth having": "stops: no gain worth having is left",
    "quality lost": "stops: its quality is worse",
    "quality not measured": "stops: its quality is not known",
    "too many failures": "stops: it fails too often",
    "too few jobs succeeded": "stops: too few jobs succeeded",
    "all jobs fail": "stops: its jobs fail at once",
    "last look": "ends undecided: this was the last look",
}


def look_sentence(look: Look) -> str:
    """Return the cost ratio with its interval at a look, and whether the arm continues.

    If some jobs started with a cold cache, the ratio with it follows.
    """
    text = f"{change(look.ratio.estimate)} ({change_interval(look.ratio)})"
    text += f", with a cold cache {change(look.cold.ratio)}" if look.cold else ""
    return f"{text}; {_ENDINGS[look.stops]}"


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
        has_decided = any(reason != "last look" for reason in progress.stopped.values())
        return f"It took all {most} jobs to decide." if has_decided else ""
    return f"The comparison stopped by itself after {len(progress.begun)} of at most {most} jobs."


def looks_table(comparison: Comparison) -> Table | None:
    """Return the table with a row per look and a column per arm; None unless the comparison ran in waves."""
    design, progress = comparison.design, comparison.progress
    if design is None or progress is None or not progress.looks:
        return None
    all_looks = progress.looks

    def cell(label: str, row: tuple[int, Mapping[str, Look]]) -> str:
        if look := row[1].get(label):
            return look_sentence(look)
        return "stopped" if any(label in looks for looks in all_looks) else "too few jobs"

    columns = [
        Column[tuple[int, Mapping[str, Look]]]("repeats", lambda row: f"after {row[0]}"),
        *(Column(arm.label, partial(cell, arm.label)) for arm in comparison.arms[1:]),
    ]
    return build_table("The looks", columns, zip(design.looks, all_looks, strict=False))


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


def looks_sections(comparison: Comparison) -> tuple[Section, ...]:
    """Return the section with the looks and their rules; empty unless the comparison ran in waves."""
    design, table = comparison.design, looks_table(comparison)
    if design is None or table is None:
        return ()
    note = (
        f"After each wave, an arm stops if it is shown to be cheaper or dearer, or if a gain of "
        f"{percent(1 - design.least_gain)} % is unlikely. The intervals allow for looking often: in 95 % of "
        f"comparisons, no equal arm is called cheaper or dearer at any look. Judged by version {design.rules} of the "
        f"rules; docs/judging.md lists their assumptions."
    )
    return (Section("The looks", (table, Text(note, "small"))),)


def job_sections(jobs: Sequence[Job], tracking_uri: str, title: str = "Every job") -> tuple[Section, ...]:
    """Return the section with the table of these jobs, with their outcomes and links to their runs; empty without."""

    def status(job: Job) -> Cell:
        message = short(job.text.get("failure_message") or "no message", 300)
        return Cell(
            text="stopped" if job.stopped else job.status.lower(),
            badge=job.status,
            error=f"{job.text.get('failure_class') or 'unclassified'}: {message}" if job.failed else "",
            detail=f"disturbed: {', '.join(job.disturbances)}" if job.disturbances else "",
        )

    def run(job: Job) -> Cell:
        url = job_url(tracking_uri, job)
        return Cell(text=job.name, url=url, code="" if url else job.run_id)

    columns = [
        Column[Job]("job", lambda job: job.title, kind="text"),
        Column[Job]("status", status, kind="text"),
        Column[Job]("cache", lambda job: job.cache_state, kind="text"),
        Column[Job]("billable", lambda job: job.number(BILLABLE), unit="s"),
        Column[Job](TRAINER_RATE, lambda job: job.number(TRAINER_RATE), is_optional=True),
        Column[Job]("run", run, kind="text"),
    ]
    return (Section(title, (build_table(title, columns, jobs, style="jobs"),)),) if jobs else ()


def job_url(tracking_uri: str, job: Job) -> str | None:
    """Return the address of a job's run; None for a store that has no web address."""
    return run_url(tracking_uri, job.experiment_id, job.run_id)


def published_sections(table: pd.DataFrame, comparison: Comparison) -> tuple[Section, ...]:
    """Return the section with a recipe's published figures and the measured ones, with a column per arm.

    The jobs' experiment states the figures, in a tag. Empty if they are missing or invalid.
    """
    document = next((text for text in table.get("published", ()) if isinstance(text, str)), "null")
    try:
        read = json.loads(document)
        source, machine = str(read["source"]), read.get("machine")
        figures = {name: float(value) for name, value in read["figures"].items() if name in _PUBLISHED}
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()
    columns = [
        Column[str]("figure", lambda name: _PUBLISHED[name][0]),
        Column[str]("published", lambda name: _PUBLISHED[name][1](figures[name])),
        *(
            Column(contrast.arm.label, partial(_measured, comparison, contrast), unit="measured")
            for contrast in comparison.contrasts
        ),
    ]
    note = (
        f"Published by {source}{f', on {machine}' if machine else ''}; measured here against "
        f"“{comparison.arms[0].label}” on the machines listed below. Other machines and versions give other figures: "
        "compare direction and size only."
    )
    rate, time = (figures.get(name, math.nan) for name in ("throughput_ratio", "training_time_ratio"))
    if abs(rate * time - 1) > 0.05:
        equal = signed_percent(1 / rate)
        note += f" The published rate and time contradict each other: for equal work, the time would be {equal}."
    shown = build_table("Published figures", columns, figures)
    return (Section("Published figures of this recipe", (shown, Text(note, "small"))),)


_PUBLISHED: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "throughput_ratio": ("steady samples/s", signed_percent),
    "training_time_ratio": ("training time", signed_percent),
    "cost_ratio": ("cost", signed_percent),
    "batch_size_ratio": ("batch size per device", signed_percent),
    "loss_ratio": ("final loss", lambda ratio: "equal" if ratio == 1 else signed_percent(ratio)),
    "break_even_minutes": ("break-even", lambda minutes: f"{figure(minutes)} min"),
    "spot_savings_percent": ("saved by spot", lambda saved: f"up to {figure(saved)} %"),
}
"""Label of each published figure, and its format."""


def _measured(comparison: Comparison, contrast: Contrast, name: str) -> str:
    """Return an arm's own figure against the baseline."""
    arm, baseline, verdict = contrast.arm, comparison.arms[0], contrast.verdict
    if name == "throughput_ratio" or (name == "cost_ratio" and verdict.currency is DOLLARS):
        ratio = contrast.speed_up if name == "throughput_ratio" else verdict.ratio
        return f"{signed_percent(ratio.estimate)} ({signed_interval(ratio)})" if ratio else NONE
    if name == "batch_size_ratio":
        mine, others = arm.setting("hp_batch_size"), baseline.setting("hp_batch_size")
        return signed_percent(mine[0] / others[0]) if len(mine) == len(others) == 1 else NONE
    if name == "break_even_minutes":
        point = next(iter(contrast.break_evens.values()), None)
        if point is None:
            return NONE
        if point.kind == "at least":
            return f"after {point.low:,.0f} samples or more"
        return point.kind if point.minutes is None else f"{figure(point.minutes)} min"
    if name == "spot_savings_percent":
        saved = arm.summary("cost_spot_savings_percent")
        return f"{figure(saved.typical)} %" if saved else NONE
    column = {"training_time_ratio": "train_runtime", "cost_ratio": DOLLARS.column}.get(name, comparison.loss_column)
    own, base = arm.summary(column), baseline.summary(column)
    return signed_percent(own.typical / base.typical) if own and base and base.typical > 0 else NONE
