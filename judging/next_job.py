"""Intervals for jobs that have not run: what the beginning of one job says about the next job of its setting.

A projection from the steps of one job has two errors. Its steps are a sample, and its job is one of many: the same
setting takes longer on one day, or on one machine, than on another. Only the second error separates a probe from the
training that follows it, and it is usually the larger one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from judging.intervals import CONFIDENCE, LEAST_SPREAD, sum_of_squares

MIN_FREEDOM = 3
"""Fewest degrees of freedom from which a spread counts. With fewer there is no interval: a spread of other workloads
does not replace one's own (`benchmarks/bench_next_job.py`)."""
STEP_FACTOR = 1.25
"""Factor on an interval from steps, which holds the true time in 89 to 93 of 100 simulated probes instead of 95."""
SEPARATION_FACTOR = 1.2
"""Factor on the interval by which two settings are separated. Recorded jobs have heavier tails than a normal
distribution: without it, one of two equal settings is called the cheapest in 5.5 %."""


@dataclass(frozen=True)
class JobSpread:
    """Spread between jobs of one setting."""

    relative: float
    """Standard deviation of the logarithm of a job's cost, which is about the relative standard deviation."""
    jobs: int
    """Number of jobs that it is estimated from."""
    degrees_of_freedom: float

    @property
    def error(self) -> float:
        """Half-width of the 95 % interval of one job's cost around its setting's cost: t s."""
        quantile = (1 + CONFIDENCE) / 2
        return float(stdtrit(self.degrees_of_freedom, quantile)) * self.relative


def job_spread(settings: Iterable[Sequence[float]]) -> JobSpread | None:
    """Return the spread between jobs, pooled over settings; None if the jobs are too few.

    `settings` holds the positive costs of the jobs of each setting. Each setting has its own mean, so n jobs of it have
    n - 1 degrees of freedom.
    """
    logs = [[math.log(cost) for cost in costs] for costs in settings if len(costs) > 1]
    jobs = sum(map(len, logs))
    freedom = jobs - len(logs)
    if freedom < MIN_FREEDOM:
        return None
    variance = math.fsum(map(sum_of_squares, logs)) / freedom
    return JobSpread(max(math.sqrt(variance), LEAST_SPREAD), jobs, float(freedom))


def next_job_error(step_error: float, spread: JobSpread) -> float:
    """Return the relative half-width of the 95 % interval of the next job's cost.

    `step_error` is the relative half-width of the interval from the steps of one job. Both this job and the next one
    differ from their setting's mean: sqrt((1.25 h)^2 + (t sqrt(2) s)^2).
    """
    return math.hypot(STEP_FACTOR * step_error, math.sqrt(2) * spread.error)


def are_separated(
    costs: tuple[float, float],
    step_errors: tuple[float, float],
    spreads: tuple[JobSpread | None, JobSpread | None],
) -> bool:
    """Return True if two settings, each projected from one job, are shown to cost differently.

    The interval of their ratio excludes 1. The logarithm of the ratio has the error of both projections and of both
    jobs, and a factor for heavy tails. Among several equal settings, the least is separated from all others even less
    often than from one. Without a spread, nothing is shown.
    """
    if min(costs) <= 0 or None in spreads:
        return False
    parts = (*(STEP_FACTOR * error for error in step_errors), *(spread.error for spread in spreads if spread))
    return abs(math.log(costs[0] / costs[1])) > SEPARATION_FACTOR * math.hypot(*parts)
