"""Judge if two trainings compute the same: on equal weights and rows, they may differ by rounding and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["no difference", "different", "as stock torch", "not checked"]
SAME: Answer = "no difference"
DIFFERENT: Answer = "different"
AS_STOCK: Answer = "as stock torch"
NOT_CHECKED: Answer = "not checked"

LOSS = "loss"
NORM = "gradient norm"
LOSS_TOLERANCE = 2e-6
"""Largest relative difference of equal losses in single precision. See docs/check.md for its calibration."""
GRADIENT_TOLERANCE = 5e-5
"""Largest relative difference of equal norms of gradients in single precision."""
SMALLEST_LOSS = 1e-3
"""Differences of smaller losses are relative to this number."""
SMALLEST_SHARE = 1e-3
"""Differences of smaller shares of the whole gradient's norm are relative to this share."""
LARGEST_RATIO = 3.0
"""Largest ratio of the error of an arm to that of stock torch in the same precision."""
_DESCRIPTION = ("name", "value", "against", "precision", "step", "optimizer", "not_checked")
"""Columns that are no quantity."""

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Answer of a check about one setting of an arm."""

    name: str
    """Setting, such as `compiler`. `trainer` stands for Trainer with plain settings, on all processes."""
    value: str
    answer: Answer
    step: int | None = None
    """First step that is different, else the step with the largest difference."""
    quantity: str = ""
    """Quantity of the difference: loss, gradient norm, a layer (its gradient), or an option of the optimizer."""
    size: float = 0.0
    """Relative difference; of a precision, the ratio of errors."""
    reason: str = ""
    """Why the setting was not checked."""


def judge(rows: Sequence[Row]) -> list[Finding]:
    """Return a finding for each setting, from the table of a check: a row for each training and step.

    A training is compared with the one that it names in `against`.
    """
    trainings: dict[str, list[Row]] = {}
    for row in rows:
        trainings.setdefault(row["name"], []).append(row)
    plain = trainings.get("plain", [])
    return [
        _finding(steps, trainings.get(steps[0]["against"], []), trainings.get(f"plain {steps[0]['precision']}"), plain)
        for name, steps in trainings.items()
        if not name.startswith("plain")
    ]


def answer_of(findings: Sequence[Finding]) -> Answer:
    """Return the answer about an arm: the worst about its settings."""
    answers = {each.answer for each in findings}
    return next((each for each in (DIFFERENT, NOT_CHECKED, AS_STOCK, SAME) if each in answers), NOT_CHECKED)


def _finding(
    steps: Sequence[Row], against: Sequence[Row], stock: Sequence[Row] | None, plain: Sequence[Row]
) -> Finding:
    name, value = str(steps[0]["name"]), str(steps[0]["value"])
    if reason := steps[0].get("not_checked"):
        return Finding(name=name, value=value, answer=NOT_CHECKED, reason=str(reason))
    if not against or not all(math.isfinite(number) for row in against for number in _quantities(row).values()):
        reason = f"the training before it, {steps[0]['against']}, did not end with finite numbers"
        return Finding(name=name, value=value, answer=NOT_CHECKED, reason=reason)
    for row in steps:
        if option := row.get("optimizer"):
            return Finding(name=name, value=value, answer=DIFFERENT, step=row["step"], quantity=str(option))
    if name == "precision":
        ratio = _error(steps, plain) / max(_error(stock or (), plain), 1e-12)
        if math.isnan(ratio) or ratio == 0:
            reason = "stock torch has no finite error in this precision"
            return Finding(name=name, value=value, answer=NOT_CHECKED, reason=reason)
        answer = AS_STOCK if ratio <= LARGEST_RATIO else DIFFERENT
        return Finding(name=name, value=value, answer=answer, size=ratio)
    largest = Finding(name=name, value=value, answer=SAME)
    for row, other in zip(steps, against, strict=True):
        sizes = differences(row, other)
        quantity = max(sizes, key=lambda each: sizes[each] / _tolerance(each))
        size, tolerance = sizes[quantity], _tolerance(quantity)
        answer = SAME if size <= tolerance else DIFFERENT
        found = Finding(name=name, value=value, answer=answer, step=row["step"], quantity=quantity, size=size)
        if answer == DIFFERENT:
            return found
        if size / tolerance >= largest.size / _tolerance(largest.quantity):
            largest = found
    return largest


def differences(row: Row, other: Row) -> dict[str, float]:
    """Return the relative difference of each quantity at one step. That of a number that is not finite is infinite."""
    mine, its = _quantities(row), _quantities(other)
    smallest = SMALLEST_SHARE * its[NORM]
    scales = {name: max(abs(value), SMALLEST_LOSS if name == LOSS else smallest) for name, value in its.items()}
    return {
        name: abs(mine.get(name, math.nan) - value) / (scales[name] or 1.0)
        if math.isfinite(mine.get(name, math.nan))
        else math.inf
        for name, value in its.items()
    }


def _error(steps: Sequence[Row], plain: Sequence[Row]) -> float:
    """Return the root mean square of all relative differences from single precision."""
    sizes = [size for row, other in zip(steps, plain, strict=False) for size in differences(row, other).values()]
    return math.sqrt(math.fsum(size**2 for size in sizes) / max(len(sizes), 1))


def _quantities(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if name not in _DESCRIPTION and value is not None}


def _tolerance(quantity: str) -> float:
    return LOSS_TOLERANCE if quantity == LOSS else GRADIENT_TOLERANCE
