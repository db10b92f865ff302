"""The measure of quality of a comparison, and the unit of its values. Pure.

Our own jobs log each metric in one unit. A script may log an F1 between 0 and 1 or in percent. The experiment
declares the unit. If it does not, the values decide where they leave no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from judging.quality import Measure, Unit

Values = Callable[[str], Sequence[float]]
"""Finite values of the jobs in a column."""
ACCURACY, MACRO_F1, COMMONEST = "eval_accuracy", "eval_f1_macro", "_commonest"
"""Two columns, and the end of the column with a score of always answering the commonest class."""
MOST_COMMONEST = 0.8
"""Share of the evaluation rows above which the commonest class hides the others in the accuracy."""


def choose_measure(
    known: Sequence[Measure],
    own: Values,
    of_scripts: Values,
    scales: Mapping[str, Mapping[str, str]],
    chosen: Collection[str | None] = (),
) -> Measure | None:
    """Return the measure of quality of a comparison, or None if no job recorded one.

    `known` are the measures of our own jobs, in order of preference. `own` and `of_scripts` return the finite values of
    a column of our own jobs and of scripts. `scales` has the declared `unit` and `better` by column. The measure is the
    first metric with a declared direction, or else the first of `known`. Its `has_unit` is False if the unit of its
    values is not certain.

    Macro F1 replaces the accuracy of our own jobs if one class has more than `MOST_COMMONEST` of the evaluation rows of
    each of them, unless the accuracy is `chosen`: the experiment names it for its target or its best model. The rows
    are the same in all jobs of a group, and so is the measure.
    """
    by_column = {each.column: each for each in known}
    declared = (_declared(column, scale, by_column.get(column)) for column, scale in scales.items())
    candidates = [*(each for each in declared if each), *known]
    measure = next((each for each in candidates if own(each.column) or of_scripts(each.column)), None)
    shares = own(ACCURACY + COMMONEST)
    if measure and measure.column == ACCURACY and not {ACCURACY} & {*scales, *chosen} and MACRO_F1 in by_column:
        is_hidden = min(shares, default=0.0) > MOST_COMMONEST and len(shares) == len(own(ACCURACY))
        measure = by_column[MACRO_F1] if is_hidden and not of_scripts(ACCURACY) else measure
    if measure is None or "unit" in scales.get(measure.column, {}) or measure.column not in by_column:
        return measure
    unit = by_column[measure.column].unit
    return measure if unit == "number" else _in_certain_unit(measure, unit, own, of_scripts)


def _declared(column: str, scale: Mapping[str, str], known: Measure | None) -> Measure | None:
    """Return the measure that an experiment declares; None without a direction."""
    better = scale.get("better") or (known and scale.get("unit") and ("higher" if known.higher_is_better else "lower"))
    if better not in ("higher", "lower"):
        return None
    unit = next((each for each in get_args(Unit) if each == scale.get("unit")), None)
    if unit is None and known:
        return known
    # The values of a loss are compared in proportion to the baseline's, whatever their unit.
    return Measure(
        column,
        known.name if known else column,
        unit or "number",
        higher_is_better=better == "higher",
        has_unit=unit is not None or better == "lower",
    )


def _in_certain_unit(measure: Measure, own_unit: Unit, own: Values, of_scripts: Values) -> Measure:
    """Return the measure of a score in the unit of its values. It has no unit if scripts may have logged either.

    Our own jobs log it in `own_unit`. No script is expected to log values below 1 % of a score that our own jobs log as
    a fraction.
    """
    if not (logged := of_scripts(measure.column)):
        return measure
    unit: Unit | None = None
    if min(logged) >= 0 and max(logged) <= 100:
        unit = "percent" if max(logged) > 1 else "fraction" if own_unit == "fraction" else None
    if unit is None or (own(measure.column) and unit != own_unit):
        return replace(measure, has_unit=False)
    return replace(measure, unit=unit)
