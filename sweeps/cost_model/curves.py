"""Learning curves compared at equal samples and at equal quality: never at equal steps or seconds. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweeps.space.objective import CurvePoint, Quality


def samples_to(quality: Quality, curve: Sequence[CurvePoint], value: float) -> float:
    """Return the samples at which a curve is first as good as `value`, between two points by a straight line.

    Infinite where it never is. What lies before the first point is not known: there the first point counts.
    """
    for at, point in enumerate(curve):
        if not quality.is_as_good(point.value, value):
            continue
        before = curve[at - 1] if at else point
        if before.value == point.value or not math.isfinite(before.value):
            return float(point.samples)
        share = (value - before.value) / (point.value - before.value)
        return before.samples + share * (point.samples - before.samples)
    return math.inf


def value_at(curve: Sequence[CurvePoint], samples: float) -> float:
    """Return a curve's value at `samples`, by a straight line; NaN outside of the curve."""
    if not curve:
        return math.nan
    seen, values = [point.samples for point in curve], [point.value for point in curve]
    return float(np.interp(samples, seen, values, left=math.nan, right=math.nan))


def best_value(quality: Quality, curve: Sequence[CurvePoint], up_to: float = math.inf) -> float:
    """Return the best value of a curve within its first `up_to` samples; NaN where it has none."""
    values = [point.value for point in curve if point.samples <= up_to and not math.isnan(point.value)]
    if not values:
        return math.nan
    return max(values) if quality.higher_is_better else min(values)


def is_better(quality: Quality, one: float, other: float) -> bool:
    """Tell whether a value is strictly better than another; NaN never is."""
    return one > other if quality.higher_is_better else one < other


def seconds_per_sample(curve: Sequence[CurvePoint]) -> float:
    """Return the billable instance seconds per sample between a curve's first and last point; NaN for fewer than two.

    The first point's own seconds, with start and compile in them, do not count.
    """
    if not curve or curve[0].samples >= curve[-1].samples:
        return math.nan
    first, last = curve[0], curve[-1]
    return (last.billable_instance_seconds - first.billable_instance_seconds) / (last.samples - first.samples)


def diverged(quality: Quality, curve: Sequence[CurvePoint], evaluations: int = 3, margin: float = 0.1) -> bool:
    """Tell whether a training is lost: its value is no number, or its last evaluations are all worse than its first.

    Worse by more than `margin` of the first's size, for `evaluations` in a row.
    """
    if curve and not math.isfinite(curve[-1].value):
        return True
    if len(curve) <= evaluations:
        return False
    first = curve[0].value
    sign = -1.0 if quality.higher_is_better else 1.0
    return all(sign * (point.value - first) > margin * abs(first) for point in curve[-evaluations:])
