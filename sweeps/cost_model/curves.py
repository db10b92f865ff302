"""Compare learning curves at equal samples or at equal quality, never at equal steps or seconds. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweeps.space.objective import CurvePoint, Quality


def samples_to_reach(quality: Quality, curve: Sequence[CurvePoint], value: float) -> float:
    """Return the samples at which a curve first reaches `value` or better, interpolated between two points.

    Infinite if the curve never reaches it. If the first point already reaches it, return the samples of that point,
    because the curve before it is unknown.
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
    """Return a curve's value at `samples`, interpolated between two points; NaN outside of the curve."""
    if not curve:
        return math.nan
    samples_of_points, values = [point.samples for point in curve], [point.value for point in curve]
    return float(np.interp(samples, samples_of_points, values, left=math.nan, right=math.nan))


def best_value(quality: Quality, curve: Sequence[CurvePoint], up_to: float = math.inf) -> float:
    """Return the best value of a curve within its first `up_to` samples; NaN if the curve has no value there."""
    values = [point.value for point in curve if point.samples <= up_to and not math.isnan(point.value)]
    if not values:
        return math.nan
    return max(values) if quality.higher_is_better else min(values)


def seconds_per_sample(curve: Sequence[CurvePoint]) -> float:
    """Return the billable seconds per sample between a curve's first and last point; NaN for fewer than two points.

    The seconds before the first point do not count, because they include the start and the compilation.
    """
    if not curve or curve[0].samples >= curve[-1].samples:
        return math.nan
    first, last = curve[0], curve[-1]
    return (last.billable_instance_seconds - first.billable_instance_seconds) / (last.samples - first.samples)


def diverged(quality: Quality, curve: Sequence[CurvePoint], evaluations: int = 3, margin: float = 0.1) -> bool:
    """Return whether a training has diverged.

    It has if its last value is not finite, or if each of the last `evaluations` values is worse than the first one by
    more than `margin`, relative to the first value.
    """
    if curve and not math.isfinite(curve[-1].value):
        return True
    if len(curve) <= evaluations:
        return False
    first = curve[0].value
    sign = -1.0 if quality.higher_is_better else 1.0
    return all(sign * (point.value - first) > margin * abs(first) for point in curve[-evaluations:])
