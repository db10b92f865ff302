"""Break-even point of an arm that starts slower and trains faster, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from scipy.special import stdtrit

from judging.intervals import CONFIDENCE, LEAST_SPREAD, Estimate, difference

LEAST_SECONDS = 0.001
"""Least standard deviation of a setup in seconds: setups of exactly 0 s have no relative one."""

Kind = Literal["at", "at least", "until", "until at least", "already ahead", "never", "not determined"]
Shown = Literal["ahead", "behind", "neither"]
"""Position of the arm against the baseline that the repeats show."""


@dataclass(frozen=True)
class Pace:
    """Times of one job, of which the time for N samples consists: setup + N * seconds per sample."""

    setup_seconds: float
    """Compile and warm-up seconds, less what the samples of the warm-up take at the steady rate."""
    seconds_per_sample: float
    state: str = "off"
    """State of the compile cache, on which the setup depends."""


@dataclass(frozen=True)
class BreakEven:
    """Amount of work after which an arm has earned back its compile and warm-up time."""

    kind: Kind
    """`at`: behind before and ahead after that point. `at least`: behind until `low` samples, and not shown to be ahead
    later. `until`: ahead before and behind after. `until at least`: ahead until `low` samples, and not shown to be
    behind later."""
    samples: float | None = None
    """Samples after which both arms have taken the same time; only with the kinds `at` and `until`."""
    minutes: float | None = None
    """Minutes from the start of either job (compile, warm-up and steady training) to that point."""
    low: float | None = None
    """Lower end of the 95 % interval of the samples."""
    high: float | None = None
    """Upper end of the interval; None if it has no end."""


@dataclass(frozen=True)
class _Means:
    """Mean setup and mean seconds per sample of one arm, with their covariance."""

    setup: float
    pace: float
    setup_variance: float
    covariance: float
    pace_variance: float
    degrees_of_freedom: int

    def variance_after(self, samples: float) -> float:
        """Return the variance of the mean time for this many samples; without end, of the pace."""
        if math.isinf(samples):
            return self.pace_variance
        return self.setup_variance + 2 * samples * self.covariance + samples**2 * self.pace_variance


def break_even(arm: Sequence[Pace], baseline: Sequence[Pace], state: str, baseline_state: str) -> BreakEven:
    """Return when the arm overtakes the baseline: N* = (C_arm - C_base) / (P_base - P_arm).

    C is the mean setup of the jobs whose cache was in the state, P the mean seconds per sample of all jobs. The
    interval holds every N after which the arms' mean times are not shown to differ (Fieller 1954): Welch's t of
    C + N P, with the covariance of setup and pace within jobs, and Satterthwaite's degrees of freedom at N*. Such a set
    can be unbounded; the kind then says what is shown. "Not determined" with fewer than two repeats on a side.
    """
    mine, others = _means(arm, state), _means(baseline, baseline_state)
    if mine is None or others is None:
        return BreakEven("not determined")
    lead, gain = mine.setup - others.setup, others.pace - mine.pace
    samples = lead / gain if gain else math.inf
    factor = _quantile(mine, others, samples) ** 2
    # (lead - N gain)^2 <= t^2 Var(lead - N gain) is square N^2 - 2 middle N + fixed <= 0.
    square = gain**2 - factor * (mine.pace_variance + others.pace_variance)
    middle = lead * gain + factor * (mine.covariance + others.covariance)
    fixed = lead**2 - factor * (mine.setup_variance + others.setup_variance)
    first: Shown = "neither" if fixed <= 0 else "behind" if lead > 0 else "ahead"
    later: Shown = "neither" if square <= 0 else "ahead" if gain > 0 else "behind"
    if first == later:
        return BreakEven(_SAME[first])
    root = math.sqrt(max(middle**2 - square * fixed, 0.0))
    if later == "neither":
        # Of the roots, one is negative: behind or ahead until the positive one.
        return BreakEven("at least" if first == "behind" else "until at least", low=(middle - root) / square)
    low, high = (middle - root) / square, (middle + root) / square
    if samples <= 0:
        return BreakEven("already ahead" if later == "ahead" else "never", high=high)
    minutes = (mine.setup + samples * mine.pace) / 60
    return BreakEven("at" if later == "ahead" else "until", samples, minutes, max(low, 0.0), high)


_SAME: dict[Shown, Kind] = {"ahead": "already ahead", "behind": "never", "neither": "not determined"}


def _quantile(mine: _Means, others: _Means, samples: float) -> float:
    """Return Student's quantile with Satterthwaite's degrees of freedom after this many samples."""
    sides = (Estimate(0.0, side.variance_after(samples), side.degrees_of_freedom) for side in (mine, others))
    return float(stdtrit(difference(*sides).degrees_of_freedom, (1 + CONFIDENCE) / 2))


def _means(jobs: Sequence[Pace], state: str) -> _Means | None:
    """Return the means of an arm whose cache starts in `state`; None with too few jobs.

    Setups spread around the mean of their own state. The jobs of all states show how much: there is often only one cold
    job. A longer setup is taken to spread as many times more.
    """
    by_state = {each: [job for job in jobs if job.state == each] for each in {job.state for job in jobs}}
    freedom = len(jobs) - len(by_state)
    if freedom < 1 or state not in by_state:
        return None
    setups = {each: fmean(job.setup_seconds for job in own) for each, own in by_state.items()}
    setup, pace = setups[state], fmean(job.seconds_per_sample for job in jobs)
    deviations = [
        (
            (job.setup_seconds - setups[each]) * (max(1.0, setup / setups[each]) if setups[each] > 0 else 1.0),
            job.seconds_per_sample - fmean(other.seconds_per_sample for other in own),
        )
        for each, own in by_state.items()
        for job in own
    ]
    squares, products, paces = (
        math.fsum(terms) / freedom
        for terms in ([c * c for c, _ in deviations], [c * p for c, p in deviations], [p * p for _, p in deviations])
    )
    return _Means(
        setup=setup,
        pace=pace,
        setup_variance=max(squares, (LEAST_SPREAD * setup) ** 2, LEAST_SECONDS**2) / len(by_state[state]),
        # The mean pace includes the jobs of the state, each with the weight 1 / n.
        covariance=products / len(jobs),
        pace_variance=max(paces, (LEAST_SPREAD * pace) ** 2) / len(jobs),
        degrees_of_freedom=freedom,
    )
