"""Columns of the table of settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from judging.summaries import Summary, summary
from reports.comparison.arms import STEADY, Arm
from reports.comparison.comparison import END_TO_END, Comparison
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.model.numbers import NONE, change, figure, rate, score
from reports.model.table import Column

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
