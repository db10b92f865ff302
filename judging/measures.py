"""The measure of quality of a comparison, and the unit of its values. Pure.

Our own jobs log each metric in one unit. A script may log an F1 between 0 and 1 or in percent. The experiment
declares the unit. If it does not, the values decide where they leave no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from judging.quality import MEASURES, Measure, Unit, measure_in

Values = Callable[[str], Sequence[float]]
"""Finite values of the jobs in a column."""

_OWN_UNIT: dict[str, Unit] = {
    "eval_accuracy": "fraction",
    "eval_f1_macro": "fraction",
    "eval_f1": "percent",
    "eval_exact_match": "percent",
}
"""Units in which our own jobs log the scores."""
_CERTAIN_FRACTIONS = frozenset({"eval_accuracy", "eval_f1_macro"})
"""Scores of which no script is expected to log values below 1 %, so that values up to 1 are fractions."""


def choose_measure(own: Values, of_scripts: Values, scales: Mapping[str, Mapping[str, str]]) -> Measure | None:
    """Return the measure of quality of a comparison, or None if no job recorded one.

    `own` and `of_scripts` return the finite values of a column of our own jobs and of scripts. `scales` has the
    declared `unit` and `better` by column. The measure is the first metric with a declared direction, or else the first
    of `MEASURES`. Its `has_unit` is False if the unit of its values is not certain.
    """
    candidates = [*(each for column in scales if (each := _declared(column, scales[column]))), *MEASURES]
    measure = next((each for each in candidates if own(each.column) or of_scripts(each.column)), None)
    if measure is None or measure.column not in _OWN_UNIT or "unit" in scales.get(measure.column, {}):
        return measure
    return _in_certain_unit(measure, own(measure.column), of_scripts(measure.column))


def _declared(column: str, scale: Mapping[str, str]) -> Measure | None:
    """Return the measure that an experiment declares; None without a direction."""
    known = next((each for each in MEASURES if each.column == column), None)
    better = scale.get("better") or (known and scale.get("unit") and ("higher" if known.higher_is_better else "lower"))
    if better not in ("higher", "lower"):
        return None
    label = known.label.removesuffix(" (%)") if known else column
    unit = next((each for each in get_args(Unit) if each == scale.get("unit")), None)
    if unit is None and known:
        return known
    # The values of a loss are compared in proportion to the baseline's, whatever their unit.
    measure = measure_in(unit or "number", column, label, higher_is_better=better == "higher")
    return replace(measure, has_unit=unit is not None or better == "lower")


def _in_certain_unit(measure: Measure, own: Sequence[float], of_scripts: Sequence[float]) -> Measure:
    """Return the measure of a score in the unit of its values. It has no unit if scripts may have logged either."""
    if not of_scripts:
        return measure
    unit, label = _certain_unit(measure.column, of_scripts), measure.label.removesuffix(" (%)")
    if unit is None or (own and unit != _OWN_UNIT[measure.column]):
        return replace(measure, label=label, has_unit=False)
    return measure_in(unit, measure.column, label, higher_is_better=True)


def _certain_unit(column: str, values: Sequence[float]) -> Unit | None:
    """Return the unit of a score's values, or None if they could be in either."""
    if min(values) < 0 or max(values) > 100:
        return None
    if max(values) > 1:
        return "percent"
    return "fraction" if column in _CERTAIN_FRACTIONS else None
