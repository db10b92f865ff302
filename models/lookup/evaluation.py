"""Choice and comparison of the metric that says how good a model is. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from judging.quality import MEASURES, Measure

PERPLEXITY = Measure("eval_perplexity", "perplexity", False, 0.02, "2 %")
EVALUATIONS = {each.column: each for each in (*MEASURES, PERPLEXITY) if each.column.startswith("eval_")}
"""Measures on rows that a model was not trained on, the preferred one first, by metric."""

NOISE = 1e-6
"""Relative difference below which two values count as equal: summation order and kernels differ."""


def measure_of(
    models: Iterable[Mapping[str, float]], requested: str | None = None, *, of_any: bool = False
) -> Measure | None:
    """Return the measure by which to compare models: the `requested` one, else the first that all of them have.

    `models` are their metrics. With `of_any`, one model that has it is enough. None if no measure qualifies.
    """
    all_metrics, enough = list(models), any if of_any else all
    names = [requested, *EVALUATIONS] if requested in EVALUATIONS else [*EVALUATIONS]
    return next((EVALUATIONS[name] for name in names if name and enough(has(each, name) for each in all_metrics)), None)


def has(metrics: Mapping[str, float], name: str) -> bool:
    """Return whether a metric exists and is finite."""
    return math.isfinite(metrics.get(name, math.nan))


def is_worse(value: float, other: float, measure: Measure) -> bool:
    """Return whether a value is worse than another by more than rounding noise.

    Both are single evaluations on the same rows, so their spread is unknown. Any difference beyond rounding counts.
    """
    if math.isclose(value, other, rel_tol=NOISE, abs_tol=NOISE * NOISE):
        return False
    return value < other if measure.higher_is_better else value > other
