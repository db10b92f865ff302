"""Choose the steps of a training to measure, and estimate its mean step time from them. Pure.

A step's time depends on the length of its batches, and all lengths are known. The steps are sorted by positions, a few
evenly spaced ones are measured, and a straight line of seconds over positions is evaluated at the mean of all steps.
This is the regression estimator of survey sampling over a systematic sample (Cochran, Sampling Techniques, 3rd edition
1977, chapters 7 and 8). The mean length of so few steps differs from that of all steps. The plain mean of their seconds
would be off by as much; the line corrects this. If all steps are equally long, both are the same.
"""

import math
from dataclasses import dataclass
from typing import Iterator, List, Sequence

import numpy as np

from data.batch_shapes import planned_batches
from data.padding import Padding
from measuring.projection import Estimate, fit, t_975

GOLDEN = (math.sqrt(5) - 1) / 2

MIN_STEPS = 4
"""Fewest steps measured at each batch size. With three, a line leaves one degree of freedom and the interval is three
times as wide (Student's t of 12.7 instead of 4.3)."""
MAX_STEPS = 30
"""Most steps measured at each batch size, however short they are."""


@dataclass(frozen=True)
class Plan:
    """Plan of an epoch at one batch size, from which the sampled steps are chosen."""

    batch_size: int
    """Rows of a batch."""
    order: np.ndarray
    """Row numbers of all processes, with repeats (see `sampler`)."""
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

    def batches(self, step: int, process: int) -> List[np.ndarray]:
        """Return the row numbers of each batch that a process takes in a step."""
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

    The result is at least `MIN_STEPS` and at most `MAX_STEPS`.
    """
    mean = sum(seconds) / len(seconds)
    count = math.ceil(target_seconds / mean) if mean > 0 else MAX_STEPS
    return min(max(count, MIN_STEPS), MAX_STEPS)


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
