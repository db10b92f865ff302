"""Estimate the time of a training from a few measured steps, with an interval. Pure.

A step's time depends on the length of its batch, and all lengths are known in advance. Survey sampling has an
estimator for this (Cochran, Sampling Techniques, 3rd edition 1977, chapters 7 and 8): it fits a straight line of
seconds over positions to the measured steps and evaluates it at the mean of the steps in question. The mean length of a
few steps differs from the mean of all, and the plain mean of their seconds would be off as much; the line corrects it.

A probe projects the rest of a training from its first steps. Because the order of steps is random, the estimate is
right on average even if the relation is not a straight line. Consecutive steps tend to be slow together, for instance
because of another tenant or a hot device. The error of the mean is therefore computed from the means of blocks of
consecutive steps, not as if the steps were independent (batch means: Law, Simulation Modeling and Analysis, 5th edition
2015, section 9.5.3).

A calibration chooses the steps to measure: it sorts them by positions and takes a few evenly spaced ones (a systematic
sample).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from training.job.data.padding import Padding, planned_batches

MIN_STEPS = 25
"""Fewest measured steps for an estimate: five blocks of five."""

MAX_BLOCKS = 10
"""Long blocks capture slow changes. More than ten blocks add little certainty (Schmeiser, Operations Research 30,
1982)."""

GOLDEN = (math.sqrt(5) - 1) / 2

FEWEST_STEPS = 4
"""Fewest steps measured at each batch size. With three, a line leaves one degree of freedom and the interval is three
times as wide (Student's t of 12.7 instead of 4.3)."""
MOST_STEPS = 30
"""Most steps measured at each batch size, however short they are."""

T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom: the job's containers may lack scipy."""


class Estimate(NamedTuple):
    """An estimate in seconds and its 95 % interval."""

    seconds: float
    low: float
    high: float

    def plus(self, seconds: float) -> "Estimate":
        """Return the estimate shifted by a known number of seconds."""
        return Estimate(self.seconds + seconds, self.low + seconds, self.high + seconds)

    @property
    def relative_error(self) -> float:
        """Half the width of the interval divided by the estimate."""
        return (self.high - self.low) / 2 / self.seconds if self.seconds > 0 else math.inf


class Line(NamedTuple):
    """Least-squares line of seconds over positions. It is flat if all positions are equal."""

    mean_seconds: float
    mean_positions: float
    slope: float
    spread: float
    """Sum of squared deviations of the positions from their mean."""
    residuals: np.ndarray
    """Measured seconds minus the line, in measured order."""

    def at(self, positions: float) -> float:
        return self.mean_seconds + self.slope * (positions - self.mean_positions)


def fit(seconds: Sequence[float], positions: np.ndarray) -> Line:
    y, x = np.asarray(seconds, dtype=float), np.asarray(positions, dtype=float)
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    residuals = y - y.mean() - slope * (x - x.mean())
    return Line(float(y.mean()), float(x.mean()), slope, spread, residuals)


def remaining(
    seconds: Sequence[float], positions: np.ndarray, mean_to_come: float, steps_to_come: int
) -> Estimate | None:
    """Return the time of `steps_to_come` steps, or None if fewer than `MIN_STEPS` were measured.

    `seconds` and `positions` belong to the measured steps, in order, without warm-up. `mean_to_come` is the mean number
    of positions of the steps to come.
    """
    if len(seconds) < MIN_STEPS:
        return None
    line = fit(seconds, positions)
    distance = mean_to_come - line.mean_positions
    variance = float((line.residuals**2).sum()) / (len(seconds) - 2)
    slope_variance = variance / line.spread * distance**2 if line.spread > 0 else 0.0
    # About sqrt(n) blocks, of which the last includes the remainder.
    size = len(seconds) // min(math.isqrt(len(seconds)), MAX_BLOCKS)
    starts = np.arange(len(seconds) // size) * size
    block_means = np.add.reduceat(line.residuals, starts) / np.diff([*starts, len(seconds)])
    mean_variance = float(block_means.var(ddof=1)) / len(block_means)
    # The steps to come are a sample too, and add noise with the same correlation as the measured noise.
    variance_to_come = mean_variance * len(seconds) / max(steps_to_come, 1)
    half_width = t_975(len(block_means) - 1) * math.sqrt(mean_variance + variance_to_come + slope_variance)
    mean = line.at(mean_to_come)
    return Estimate(*(steps_to_come * max(each, 0.0) for each in (mean, mean - half_width, mean + half_width)))


def t_975(degrees_of_freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t. Beyond the table, the error is below 0.1 %."""
    return T_975[degrees_of_freedom - 1] if degrees_of_freedom <= len(T_975) else 1.96 + 2.4 / degrees_of_freedom


@dataclass(frozen=True)
class Plan:
    """Plan of an epoch at one batch size, from which the sampled steps are chosen."""

    batch_size: int
    order: np.ndarray
    """Row numbers of all processes, with repeats (see `data/padding.py`)."""
    positions: np.ndarray
    """Positions of each complete step: rows times tokens over all processes, padding included."""
    largest: np.ndarray
    """Row numbers of the batch with the most positions."""
    batches_per_step: int
    """Batches of a step, over all processes."""
    processes: int
    """Number of processes. Each takes every n-th batch of a step."""
    rows_per_step: int
    """Rows of a complete step, over all processes."""

    def batches(self, step: int, process: int) -> list[np.ndarray]:
        first = step * self.batches_per_step
        numbers = range(first + process, first + self.batches_per_step, self.processes)
        batches = [self.order[at * self.batch_size : (at + 1) * self.batch_size] for at in numbers]
        return [rows for rows in batches if len(rows)]

    def sample(self) -> Iterator[int]:
        """Yield step numbers without end. For every n, the first n are spread evenly over the steps' positions.

        The k-th number is at the fractional part of 0.5 + k times the golden ratio: n points of this kind divide a line
        into pieces of at most three lengths (Sos 1958, three-distance theorem).
        """
        ranked = np.argsort(self.positions, kind="stable")
        at = 0.5
        while True:
            yield int(ranked[int(at * len(ranked))])
            at = (at + GOLDEN) % 1.0


def plan(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, batches_per_step: int, processes: int, padding: Padding
) -> Plan:
    """Return the steps of an epoch in this order. An incomplete last step is left out, unless it is the only step."""
    positions = planned_batches(order, lengths, batch_size, padding).positions
    at = int(positions.argmax())
    steps = np.add.reduceat(positions, np.arange(0, len(positions), batches_per_step))
    complete_steps = len(lengths) // (batch_size * batches_per_step)
    return Plan(
        batch_size=batch_size,
        order=order,
        positions=steps[: max(complete_steps, 1)],
        largest=order[at * batch_size : (at + 1) * batch_size],
        batches_per_step=batches_per_step,
        processes=processes,
        rows_per_step=min(batch_size * batches_per_step, len(lengths)),
    )


def steps_to_measure(seconds: Sequence[float], target_seconds: float) -> int:
    """Return how many steps fill `target_seconds`, estimated from the seconds of the first steps.

    The result is at least `FEWEST_STEPS` and at most `MOST_STEPS`.
    """
    mean = sum(seconds) / len(seconds)
    count = math.ceil(target_seconds / mean) if mean > 0 else MOST_STEPS
    return min(max(count, FEWEST_STEPS), MOST_STEPS)


def mean_step(seconds: Sequence[float], positions: np.ndarray, mean_positions: float) -> Estimate:
    """Return the seconds of a step with `mean_positions` and their 95 % interval, from at least three measured steps.

    The interval assumes independent noise. It does not cover longer slowdowns of the machine.
    """
    line = fit(seconds, positions)
    degrees_of_freedom = len(seconds) - (2 if line.spread > 0 else 1)
    distance = mean_positions - line.mean_positions
    factor = 1 / len(seconds) + (distance**2 / line.spread if line.spread > 0 else 0.0)
    mean, variance = line.at(mean_positions), float((line.residuals**2).sum()) / degrees_of_freedom
    half_width = t_975(degrees_of_freedom) * math.sqrt(variance * factor)
    return Estimate(mean, max(mean - half_width, 0.0), mean + half_width)
