"""Noise of simulated jobs: recorded or drawn from a distribution, with slow spells or a drift."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.noise import Numbers

Draw = Callable[[Generator, int], Numbers]
"""Draws deviations of this many consecutive jobs: of the log seconds, or of the scores."""


def resampled(values: Numbers) -> Draw:
    """Draw from the recorded values, each job independently."""
    return lambda random, jobs: random.choice(values, jobs)


def in_order(values: Numbers) -> Draw:
    """Draw jobs that were recorded one after the other, which keeps slow spells."""
    return lambda random, jobs: np.take(values, random.integers(len(values)) + np.arange(jobs), mode="wrap")


def normal(spread: float) -> Draw:
    """Draw from a normal distribution."""
    return lambda random, jobs: spread * random.standard_normal(jobs)


def heavy(spread: float) -> Draw:
    """Draw from Student's t with three degrees of freedom, with the same standard deviation."""
    return lambda random, jobs: spread / 3**0.5 * random.standard_t(3, jobs)


def with_spells(draw: Draw) -> Draw:
    """Let one job in ten begin a spell of one to four jobs that are 1.2 to 3 times as slow."""

    def drawn(random: Generator, jobs: int) -> Numbers:
        values = draw(random, jobs)
        for begin in np.flatnonzero(random.random(jobs) < 0.1):
            values[begin : begin + random.integers(1, 5)] += np.log(random.uniform(1.2, 3.0))
        return values

    return drawn


def with_drift(draw: Draw, each: float = 0.02) -> Draw:
    """Make each job slower than the one before it by this much."""
    return lambda random, jobs: draw(random, jobs) + each * np.arange(jobs)
