"""How long a training will still take, told from its first steps, with an interval. Pure.

A step's time depends on its length, and the lengths of all steps are known before the first: the regression estimator
of survey sampling (Cochran, Sampling Techniques, 3rd edition 1977, chapter 7) uses that. A straight line of seconds on
positions is fitted to the steps measured and taken to the mean of those to come. It is right in the mean also where
the line does not hold, for the order of the steps is a random one.

Steps that follow each other are slow together (another tenant, a hot device), so the error of the mean is taken from
the means of blocks of steps in their order (batch means: Law, Simulation Modeling and Analysis, 5th edition 2015,
section 9.5.3), and not from n steps as if they knew nothing of each other.
"""

import math
from typing import NamedTuple, Optional, Sequence

import numpy as np

FEWEST_STEPS = 25
"""Measured steps below which nothing is said: five blocks of five."""

MOST_BLOCKS = 10
"""Long blocks catch what lasts long; more than ten add little certainty (Schmeiser, Operations Research 30, 1982)."""

T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % quantiles of Student's t with 1 to 30 degrees of freedom: the job's containers may have no scipy."""


class Estimate(NamedTuple):
    """A number of seconds and its 95 % interval."""

    seconds: float
    low: float
    high: float

    def plus(self, seconds: float) -> "Estimate":
        """Return the estimate of as many seconds more, which are known."""
        return Estimate(self.seconds + seconds, self.low + seconds, self.high + seconds)

    @property
    def relative_error(self) -> float:
        """Half the interval's width over the estimate."""
        return (self.high - self.low) / 2 / self.seconds if self.seconds > 0 else math.inf


class Line(NamedTuple):
    """A straight line of seconds on positions, of least squares; flat where all positions are the same."""

    mean_seconds: float
    mean_positions: float
    slope: float
    spread: float
    """Sum of the squared distances of the positions from their mean."""
    residuals: np.ndarray
    """Seconds beside the line, in the order measured."""

    def at(self, positions: float) -> float:
        """Return the seconds of a step of so many positions."""
        return self.mean_seconds + self.slope * (positions - self.mean_positions)


def fit(seconds: Sequence[float], positions: np.ndarray) -> Line:
    """Return the line through measured steps."""
    y, x = np.asarray(seconds, dtype=float), np.asarray(positions, dtype=float)
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    residuals = y - y.mean() - slope * (x - x.mean())
    return Line(float(y.mean()), float(x.mean()), slope, spread, residuals)


def remaining(
    seconds: Sequence[float], positions: np.ndarray, mean_to_come: float, steps_to_come: int
) -> Optional[Estimate]:
    """Return how long `steps_to_come` steps will take, or None where fewer than `FEWEST_STEPS` are measured.

    `seconds` and `positions` are of the measured steps, in order, without warm-up; `mean_to_come` is the mean of the
    positions of the steps to come.
    """
    if len(seconds) < FEWEST_STEPS:
        return None
    line = fit(seconds, positions)
    away = mean_to_come - line.mean_positions
    variance = float((line.residuals**2).sum()) / (len(seconds) - 2)
    error_of_slope = variance / line.spread * away**2 if line.spread > 0 else 0.0
    blocks = _blocks(line.residuals)
    error_of_mean = float(blocks.var(ddof=1)) / len(blocks)
    # What the steps to come add by being a sample themselves; their noise lasts as long as the one that was measured.
    error_to_come = error_of_mean * len(seconds) / max(steps_to_come, 1)
    reach = t_975(len(blocks) - 1) * math.sqrt(error_of_mean + error_to_come + error_of_slope)
    mean = line.at(mean_to_come)
    return Estimate(*(steps_to_come * max(each, 0.0) for each in (mean, mean - reach, mean + reach)))


def t_975(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t; beyond the table within 0.1 %."""
    return T_975[freedom - 1] if freedom <= len(T_975) else 1.96 + 2.4 / freedom


def _blocks(values: np.ndarray) -> np.ndarray:
    """Return the means of the square root of n blocks, at most `MOST_BLOCKS`; what is left over joins the last."""
    size = len(values) // min(math.isqrt(len(values)), MOST_BLOCKS)
    starts = np.arange(len(values) // size) * size
    return np.asarray(np.add.reduceat(values, starts) / np.diff([*starts, len(values)]))
