"""Break-even point of an arm that starts slower and trains faster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from judging.intervals import Interval


@dataclass(frozen=True)
class BreakEven:
    """Amount of work after which an arm has earned back its compile and warm-up time."""

    kind: Literal["at", "already ahead", "never", "not determined"]
    samples: float | None = None
    """Samples after which both arms have taken the same time; only with kind `at`."""
    minutes: float | None = None
    """Minutes from the start of either job (compile, warm-up and steady training) to that point."""


def break_even(
    setup_seconds: tuple[float, float], samples_per_second: tuple[float, float], speed_up: Interval | None
) -> BreakEven:
    """Return when the arm overtakes the baseline: N* = (C_c - C_e) / (1/T_e - 1/T_c).

    Pairs are (arm, baseline). C is compile plus warm-up seconds, T the steady samples per second, and `speed_up` the
    interval of T_c / T_e. A gain within the noise gives "not determined". An arm that trains slower and starts slower
    gives "never".
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
