"""The columns of the comparison's table, the same on the page, in the terminal and in MLflow's description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from judging.summaries import Summary, summary
from reports.comparison.arms import Arm
from reports.comparison.comparison import END_TO_END, STEADY, Comparison
from reports.comparison.equal_work import DOLLARS, PAID
from reports.comparison.messages import NONE, figure, rate, score

_LOSSES = {
    "eval_loss": ("validation loss", "val.\nloss"),
    "train_loss": ("training loss", "train\nloss"),
    "loss": ("last training loss", "last\nloss"),
}


_MAY_BE_UNTOLD = ("batch", "learning rate", "steady", "end to end", "compile + warm-up", "training")

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Column(Generic[Subject]):
    """One column of a table whose rows are of `Subject`s: arms, or what a probe projects of one."""

    label: str
    head: str
    """The label and the unit where room is short, over several lines."""
    unit: str
    """Unit of the values, or empty."""
    value: Callable[[Subject], str]
    """The value: a median where there are several."""
    detail: Callable[[Subject], str] = lambda _: ""
    """What stands below the value in small print: smallest and largest value, where they differ."""

    @property
    def title(self) -> str:
        """The label with its unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


def columns(comparison: Comparison) -> list[Column[Arm]]:
    """Return the table's columns, the arm's name first."""
    loss, measure = comparison.loss_column, comparison.measure
    has_price = any(arm.values(DOLLARS.column) for arm in comparison.arms)
    told = [
        Column("arm", "arm", "", lambda arm: arm.label),
        Column("batch", "batch", "", lambda arm: _joined(arm.setting("hp_batch_size"), _count)),
        Column("learning rate", "learn.\nrate", "", lambda arm: _joined(arm.setting("hp_learning_rate"), rate)),
        _metric("steady", "steady\nsamples\n/s", "samples/s", STEADY),
        _metric("end to end", "end to\nend\n/s", "samples/s", END_TO_END),
        _column("compile + warm-up", "compile,\nwarm-up\ns", "s", lambda arm: summary(arm.setup_seconds)),
        _metric("training", "train\ns", "s", _training(comparison)),
        _metric("billable", "billed\ns", "s", PAID),
        *([_metric("cost", "cost\nUSD", "USD", DOLLARS.column)] if has_price else []),
        _metric(*_LOSSES[loss], "", loss, score),
    ]
    if measure and measure.column != loss:
        told.append(_metric(measure.label, measure.label.replace(" ", "\n"), "", measure.column, score))
    if any(arm.values("target_reached") for arm in comparison.arms):
        told.append(Column("target reached", "target\nmet", "", _target, _target_seconds))
    repeats = Column[Arm]("repeats", "n", "", lambda arm: str(len(arm.headline)))
    # A script measured from outside may tell nothing of its steps.
    told = [column for column in told if column.label not in _MAY_BE_UNTOLD or _is_told(column, comparison)]
    return [*told, repeats, Column("failed", "fail", "", lambda arm: str(len(arm.failed)))]


def _is_told(column: Column[Arm], comparison: Comparison) -> bool:
    nothing_succeeded = not any(arm.succeeded for arm in comparison.arms)
    return nothing_succeeded or any(column.value(arm) != NONE for arm in comparison.arms)


def _training(comparison: Comparison) -> str:
    """Return the column of the training's seconds: steady steps, or what Trainer told of a script's training."""
    steady, whole = "time_train_steady_seconds", "time_train_seconds"
    return steady if any(arm.values(steady) for arm in comparison.arms) else whole


def _count(value: float) -> str:
    return f"{value:g}"


def _joined(values: list[float], text: Callable[[float], str]) -> str:
    return ", ".join(map(text, values)) or NONE


def _metric(label: str, head: str, unit: str, column: str, text: Callable[[float], str] = figure) -> Column[Arm]:
    return _column(label, head, unit, lambda arm: arm.summary(column), text)


def _column(
    label: str, head: str, unit: str, told: Callable[[Arm], Summary | None], text: Callable[[float], str] = figure
) -> Column[Arm]:
    def value(arm: Arm) -> str:
        found = told(arm)
        return text(found.median) if found else NONE

    def extremes(arm: Arm) -> str:
        found = told(arm)
        low, high = (text(found.low), text(found.high)) if found else ("", "")
        return f"{low}–{high}" if low != high else ""

    return Column(label, head, unit, value, extremes)


def _target(arm: Arm) -> str:
    reached = arm.values("target_reached")
    return f"{sum(value > 0 for value in reached)} of {len(reached)}" if reached else NONE


def _target_seconds(arm: Arm) -> str:
    seconds = arm.summary("target_seconds")
    return f"after {figure(seconds.median)} s" if seconds else ""
