"""Simulated comparisons whose repeats arrive in waves: jobs one after the other, with a look after each wave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.noise import Numbers
from judging.round_order import round_order
from judging.sequential import Design, Reason, look_at_arms

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

    reasons: tuple[Reason | None, ...]
    """Reason for which each arm stopped; None if it had too few costs."""
    jobs: int
    """Jobs of all arms and of the baseline."""


def simulate_waves(waves: Waves, random: Generator) -> Ended:
    """Run the waves of one comparison until every arm has stopped."""
    arms = range(1, len(waves.ratios) + 1)
    costs: list[list[float]] = [[] for _ in range(len(waves.ratios) + 1)]
    deviations = iter(waves.seconds(random, len(costs) * waves.design.looks[-1]))
    reasons: dict[int, Reason] = {}
    for number, repeats in enumerate(waves.design.looks):
        active = [0, *(arm for arm in arms if arm not in reasons)]
        for round_number in range(len(costs[0]), repeats):
            for at in round_order(len(active), round_number, seed=0):
                arm = active[at]
                ratio = waves.ratios[arm - 1] if arm else 1.0
                costs[arm].append(_cost(waves, ratio, float(next(deviations))))
        looks = look_at_arms(
            {str(arm): costs[arm] for arm in active[1:]},
            costs[0],
            waves.design,
            number,
            others=sum(reason not in ("cheaper", "dearer") for reason in reasons.values()),
            resolution=float(waves.whole_seconds),
        )
        reasons |= {int(arm): each.stops for arm, each in looks.items() if each.stops}
        if len(reasons) == len(arms):
            break
    return Ended(tuple(reasons.get(arm) for arm in arms), sum(map(len, costs)))


def simulations(waves: Waves, comparisons: int, seed: int) -> Sequence[Ended]:
    """Return the ends of this many comparisons."""
    random = np.random.default_rng(seed)
    return [simulate_waves(waves, random) for _ in range(comparisons)]


def _cost(waves: Waves, ratio: float, deviation: float) -> float:
    seconds = waves.job_seconds * ratio * math.exp(deviation)
    return float(math.ceil(seconds)) if waves.whole_seconds else seconds
