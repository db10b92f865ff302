"""Share of next jobs that a probe's interval contains, and of equal arms of which a probe calls one the cheapest.

Simulated on the recorded repeats, without running jobs. `bench_probe.py` measures the projections themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from benchmarks.recorded.noise import Noise, recorded_noise
from benchmarks.support.results import Row, figure, write
from judging.next_job import STEP_FACTOR, JobSpread, are_separated, job_spread, next_job_error

STEP_ERRORS = (0.026, 0.058)
"""Half-widths from steps of simulated probes: those that `bench_probe.py` measured on two workloads."""
OWN_REPEATS = 4
"""Own repeats from which a simulated probe knows the spread between jobs: the fewest that count."""
DRAWS = 20
"""Simulated probes of each recorded job."""
SEED = 20261123


def simulate(noise: Noise, step_error: float, own_repeats: int) -> tuple[list[bool], list[bool]]:
    """Probe every recorded job, and compare the projection with each other job of the same setting.

    A projection is the job's time with the error of its steps. With `own_repeats`, the spread between jobs comes from
    as many other jobs of the setting, without the pair. Returns, for each pair, whether the interval contains the time
    of the other job, and whether one of two such probes is called the cheapest.
    """
    random, held, named = np.random.default_rng(SEED), [], []
    error = STEP_FACTOR * step_error / 1.96
    for seconds in noise.settings:
        for probed in range(len(seconds)):
            others = np.delete(np.arange(len(seconds)), probed)
            if len(others) <= own_repeats:
                continue
            for _ in range(DRAWS):
                following, *own = random.permutation(others)[: 1 + own_repeats]
                spread = job_spread([[seconds[at] for at in own]])
                first, second = (seconds[at] * math.exp(random.normal(0, error)) for at in (probed, following))
                held.append(abs(seconds[following] / first - 1) <= next_job_error(step_error, spread))
                named.append(are_separated((first, second), (step_error,) * 2, (spread,) * 2))
    return held, named


def rows(noise: Noise) -> Iterator[Row]:
    """Yield both shares for each error of the steps and each source of the spread between jobs."""
    for own in (0, OWN_REPEATS):
        source = f"spread of {own} own repeats" if own else f"default spread {JobSpread().relative:.1%}"
        for step_error in STEP_ERRORS:
            held, named = simulate(noise, step_error, own)
            name = f"steps known to {step_error:.1%}, {source}"
            yield figure(f"next jobs held: {name}", 100 * float(np.mean(held)), "%", least=90, most=98, n=len(held))
            label = f"equal arms, one called the cheapest: {name}"
            yield figure(label, 100 * float(np.mean(named)), "%", most=5, n=len(named))


if __name__ == "__main__":
    write("next_job", list(rows(recorded_noise())))
