"""Share of next jobs that a probe's interval holds, and of equal arms of which a probe calls one the least.

Simulated on the recorded repeats, without running jobs. `bench_probe.py` measures the projections themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.recorded.noise import Noise, recorded_noise
from benchmarks.support.results import Row, write
from judging.next_job import STEP_FACTOR, JobSpread, are_separated, job_spread, next_job_error

NEXT_JOBS_PERCENT = (90.0, 98.0)
MAX_NAMED_PERCENT = 5.0
STEP_ERRORS = (0.026, 0.058)
"""Half-widths from steps of simulated probes: those that `bench_probe.py` measured on two workloads."""
OWN_REPEATS = 4
"""Own repeats from which a simulated probe knows the spread between jobs: the fewest that count."""
DRAWS = 20
"""Simulated probes of each recorded job."""
SEED = 20261123


@dataclass
class Held:
    """Simulated probes of recorded jobs."""

    next_jobs: list[bool]
    """True for each pair of a probed job and another job of its setting, if the interval holds the other's time."""
    named: list[bool]
    """True for each such pair, if one of two probes of equal settings is called the cheapest."""


def simulate(noise: Noise, step_error: float, own_repeats: int) -> Held:
    """Probe every recorded job, and compare the projection with each other job of the same setting.

    A projection is the job's time with the error of its steps. With `own_repeats`, the spread between jobs comes from
    as many other jobs of the setting, without the pair.
    """
    random, held = np.random.default_rng(SEED), Held([], [])
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
                reach = next_job_error(step_error, spread)
                held.next_jobs.append(abs(seconds[following] / first - 1) <= reach)
                held.named.append(are_separated((first, second), (step_error,) * 2, (spread,) * 2))
    return held


def rows(noise: Noise) -> Iterator[Row]:
    """Yield the share of next jobs that the interval holds, and of equal arms of which one is called the cheapest."""
    for own in (0, OWN_REPEATS):
        source = f"spread of {own} own repeats" if own else f"default spread {JobSpread().relative:.1%}"
        for step_error in STEP_ERRORS:
            held, name = simulate(noise, step_error, own), f"steps known to {step_error:.1%}, {source}"
            yield _share_row(f"next jobs held: {name}", held.next_jobs, *NEXT_JOBS_PERCENT)
            yield _share_row(f"equal arms, one called the cheapest: {name}", held.named, 0, MAX_NAMED_PERCENT)


def _share_row(name: str, cases: list[bool], least: float, most: float) -> Row:
    share = 100 * float(np.mean(cases))
    target = f"{least:g} to {most:g} %" if least else f"at most {most:g} %"
    return Row(name=name, value=share, unit="%", n=len(cases), target=target, met=least <= share <= most)


def main() -> None:
    """Simulate the probes, and write the figures."""
    noise = recorded_noise()
    write(
        "next_job",
        list(rows(noise)),
        [
            f"{sum(map(len, noise.settings))} recorded jobs of {len(noise.settings)} settings, in pairs of equal "
            "settings. The first of a pair is probed, with a simulated error of the steps. The interval that reports "
            "show is compared with the time of the second.",
            "The interval from steps alone holds 38 % of the next jobs if the steps are known to 2.6 %, and 66 % if "
            "they are known to 5.8 %.",
        ],
    )


if __name__ == "__main__":
    main()
