"""Choose and compare the metric that measures a model's quality. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from judging.quality import Measure
from tracking.recorded.recorded_job import EVALUATIONS
from training.job.tasks import OWN_METRICS

NOISE = 1e-6
"""Relative difference up to which two values count as equal, because summation order and kernels differ."""


def choose_measure(
    models: Iterable[Mapping[str, float]], requested: str | None = None, *, any_model: bool = False
) -> Measure | None:
    """Return the measure by which to compare models: the `requested` one, or the first that all models have.

    `models` are the models' metrics. With `any_model`, one model that has it is enough. None if no measure qualifies.
    """
    all_metrics, enough = list(models), any if any_model else all
    names = [requested, *EVALUATIONS] if requested in EVALUATIONS else [*EVALUATIONS]
    return next((EVALUATIONS[name] for name in names if name and enough(has(each, name) for each in all_metrics)), None)


def without_own(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics without those of a user's function, which another function or a script logs differently."""
    own = {metric.name for metric in OWN_METRICS}
    return {name: value for name, value in metrics.items() if name not in own}


def has(metrics: Mapping[str, float], name: str) -> bool:
    """Return whether a metric exists and is finite."""
    return math.isfinite(metrics.get(name, math.nan))


def is_worse(value: float, other: float, measure: Measure) -> bool:
    """Return whether `value` is worse than `other` by more than rounding noise.

    Both are single evaluations on the same rows, so their spread is unknown. Any larger difference counts.
    """
    if math.isclose(value, other, rel_tol=NOISE, abs_tol=NOISE * NOISE):
        return False
    return value < other if measure.higher_is_better else value > other
