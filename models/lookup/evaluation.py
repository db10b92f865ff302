"""Which number says how good a model is, and whether two were evaluated on the same rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from judging.quality import MEASURES, Measure

PERPLEXITY = Measure("eval_perplexity", "perplexity", False, 0.02, "2 %")
EVALUATIONS = {each.column: each for each in (*MEASURES, PERPLEXITY) if each.column.startswith("eval_")}
"""The measures of quality that stand for rows a model has not seen, the preferred one first, by metric."""

NOISE = 1e-6
"""Relative difference of two numbers that are the same evaluation: sums of another order, other kernels."""


def measure_of(
    models: Iterable[Mapping[str, float]], asked: str | None = None, *, of_any: bool = False
) -> Measure | None:
    """Return the measure by which models are told apart: the one `asked` for, else the first that all of them have.

    `models` are their metrics; with `of_any` it is enough that one of them has it. None where there is none.
    """
    told, enough = list(models), any if of_any else all
    names = [asked, *EVALUATIONS] if asked in EVALUATIONS else [*EVALUATIONS]
    return next((EVALUATIONS[name] for name in names if name and enough(has(each, name) for each in told)), None)


def has(metrics: Mapping[str, float], name: str) -> bool:
    """Tell whether a metric is there and is a number."""
    return math.isfinite(metrics.get(name, math.nan))


def is_worse(value: float, other: float, measure: Measure) -> bool:
    """Tell whether a value is worse than another by more than noise of arithmetic.

    Both are one evaluation each on the same rows, so nothing is known of their spread: any true difference counts, and
    equal ones are not worse.
    """
    if math.isclose(value, other, rel_tol=NOISE, abs_tol=NOISE * NOISE):
        return False
    return value < other if measure.higher_is_better else value > other
