"""Simulated comparisons whose repeats arrive in waves: jobs one after the other, with a look after each wave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.noise import Numbers
from judging.design import Design
from judging.result import Result
from judging.sequential import Reason
from judging.waves import Job, progress

Draw = Callable[[Generator, int], Numbers]
"""Draws the deviations of log seconds of this many consecutive jobs."""


@dataclass(frozen=True, kw_only=True)
class Waves:
    """A comparison to simulate."""

    seconds: Draw
    ratios: tuple[float, ...] = (1.0,)
    """True cost of each arm after the baseline, relative to it."""
    design: Design = field(default_factory=Design)
    job_seconds: float = 40.0
    whole_seconds: bool = False
    """True if a job bills whole seconds, as on SageMaker."""


@dataclass(frozen=True)
class Ended:
    """The end of a simulated comparison."""

    reasons: tuple[Reason, ...]
    """Reason for which each arm stopped."""
    jobs: int
    """Jobs of all arms and of the baseline."""


def simulate_waves(waves: Waves, random: Generator) -> Ended:
    """Run the waves of one comparison until every arm has stopped."""
    arms = [str(at) for at in range(len(waves.ratios) + 1)]
    ratios = dict(zip(arms, (1.0, *waves.ratios), strict=True))
    deviations = iter(waves.seconds(random, len(arms) * waves.design.looks[-1]))
    results: dict[Job, Result | None] = {}
    while (state := progress(waves.design, arms, results, resolution=float(waves.whole_seconds))).due:
        results |= {job: Result(_cost(waves, ratios[job[0]], float(next(deviations)))) for job in state.due}
    return Ended(tuple(state.stopped[arm] for arm in arms[1:]), len(results))


def simulations(waves: Waves, comparisons: int, seed: int) -> Sequence[Ended]:
    """Return the ends of this many comparisons."""
    random = np.random.default_rng(seed)
    return [simulate_waves(waves, random) for _ in range(comparisons)]


def _cost(waves: Waves, ratio: float, deviation: float) -> float:
    seconds = waves.job_seconds * ratio * math.exp(deviation)
    return float(math.ceil(seconds)) if waves.whole_seconds else seconds
