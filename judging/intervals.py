"""The report's arithmetic: summaries, intervals and the break-even point. Pure; every rule has a hand-worked test.

Ratios are taken on the log scale, because a compiler or a batch size multiplies the time of a job rather than
adding to it, and because the ratio of two geometric means is then exact and symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """What a few repeats say: with so few, the extremes are more honest than a standard deviation."""

    median: float
    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    n: int
    """Values."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float
    n_arm: int
    """Repeats of the arm."""
    n_baseline: int
    """Repeats of the baseline."""


@dataclass(frozen=True)
class BreakEven:
    """From how much work on an arm has earned its compile and warm-up seconds back."""

    kind: Literal["at", "already ahead", "never", "not determined"]
    samples: float | None = None
    """Samples at which both arms have taken equally long; with kind `at` alone."""
    minutes: float | None = None
    """Minutes into either job (compile, warm-up and steady training) at that point."""


def summary(values: Sequence[float]) -> Summary | None:
    """Return median, extremes and count of the finite values, or None without any."""
    finite = [value for value in values if math.isfinite(value)]
    return Summary(median(finite), min(finite), max(finite), len(finite)) if finite else None


def gain_percent(ratio: float) -> float:
    """Return a ratio as a change in percent: 1.25 -> 25, 0.8 -> -20."""
    return 100 * (ratio - 1)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return math.exp(fmean(math.log(value) for value in values))


def ratio_interval(arm: Sequence[float], baseline: Sequence[float], resolution: float = 0.0) -> Interval | None:
    """Return arm / baseline as a ratio of geometric means with its 95 % interval; None below two values a side.

    Welch's t on the logarithms. Values are rounded to `resolution` (billing counts whole seconds), so the variance of
    the rounding, resolution^2 / 12, is added to each side's: three jobs that all bill 41 s do not prove a spread of
    zero, and jobs that bill 40 or 41 s by chance no difference.
    """
    if min(len(arm), len(baseline)) < 2:
        return None
    rounding = (resolution / min(geometric_mean(arm), geometric_mean(baseline))) ** 2 / 12
    logs = difference_interval([math.log(v) for v in arm], [math.log(v) for v in baseline], rounding)
    assert logs is not None
    return Interval(math.exp(logs.estimate), math.exp(logs.low), math.exp(logs.high), len(arm), len(baseline))


def difference_interval(arm: Sequence[float], baseline: Sequence[float], rounding: float = 0.0) -> Interval | None:
    """Return mean(arm) - mean(baseline) with its 95 % interval; None below two values a side.

    Student's t by Welch (Biometrika 34, 1947): each side has its own variance, that of its values' `rounding` added,
    and the degrees of freedom are Satterthwaite's. One variance for both would be right only where both spread alike;
    settings do not, and a noisy arm that has fewer repeats (its first job found a cold cache) would mislead twice as
    often.
    """
    if min(len(arm), len(baseline)) < 2:
        return None
    sides = (arm, baseline)
    errors = [(_squares(side) / (len(side) - 1) + rounding) / len(side) for side in sides]
    error, estimate = math.fsum(errors), fmean(arm) - fmean(baseline)
    reach = 0.0
    if error > 0:
        freedom = 1 / math.fsum((own / error) ** 2 / (len(side) - 1) for own, side in zip(errors, sides, strict=True))
        reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(error)
    return Interval(estimate, estimate - reach, estimate + reach, len(arm), len(baseline))


def break_even(
    setup_seconds: tuple[float, float], samples_per_second: tuple[float, float], speed_up: Interval | None
) -> BreakEven:
    """Return when the arm overtakes the baseline: N* = (C_c - C_e) / (1/T_e - 1/T_c).

    Pairs are (arm, baseline): C is compile + warm-up seconds, T the steady samples/second, and `speed_up` the
    interval of T_c / T_e. A gain within the noise determines nothing; a steady rate that is shown to be lower never
    pays for a dearer start.
    """
    (setup_arm, setup_baseline), (rate_arm, rate_baseline) = setup_seconds, samples_per_second
    if speed_up is None or not all(map(math.isfinite, (*setup_seconds, *samples_per_second))):
        return BreakEven("not determined")
    if speed_up.high < 1 and setup_arm > setup_baseline:
        return BreakEven("never")
    if speed_up.low <= 1:
        return BreakEven("not determined")
    if setup_arm <= setup_baseline:
        return BreakEven("already ahead")
    samples = (setup_arm - setup_baseline) / (1 / rate_baseline - 1 / rate_arm)
    return BreakEven("at", samples, (setup_arm + samples / rate_arm) / 60)


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)
