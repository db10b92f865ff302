"""Share of next jobs that a probe's interval contains, and of equal arms of which a probe calls one the cheapest.

Simulated on the recorded repeats, without running jobs. `bench_probe.py` measures the projections themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.recorded import replay
from benchmarks.recorded.noise import FOLDER, MIN_JOBS, equal_jobs, read
from benchmarks.support.results import Row, figure, write
from judging.next_job import STEP_FACTOR, JobSpread, are_separated, job_spread, next_job_error

STEP_ERRORS = (0.026, 0.058)
"""Half-widths from steps of simulated probes: those that `bench_probe.py` measured on two workloads."""
OWN_REPEATS = 4
"""Own repeats from which a simulated probe knows the spread between jobs: the fewest that count."""
DRAWS = 20
"""Simulated probes of each recorded job."""
SEED = 20261123
SpreadOf = Callable[[Sequence[float]], JobSpread | None]
"""Returns the spread, from the seconds of own repeats."""


@dataclass(frozen=True)
class Recorded:
    """Jobs of one setting that ran one after the other."""

    setting: str
    """Name of the setting, equal for recordings of different days and with and without load."""
    is_disturbed: bool
    seconds: list[float]

    @property
    def workload(self) -> str:
        return self.setting.split("-")[0]


def recordings() -> list[Recorded]:
    """Return all recorded repeats, and the equal jobs of the grids whose jobs ran one after the other."""
    found = []
    for name in sorted(path.stem for path in FOLDER.glob("*.json")):
        setting = name.removesuffix("-beside-load")
        found += [Recorded(setting, each.is_disturbed, each.seconds) for each in read(name)]
    for name in replay.names():
        grid = replay.read(name)
        if grid.parallel == 1:
            found += [Recorded(f"{name}-{at}", False, seconds) for at, seconds in enumerate(equal_jobs(grid))]
    return [each for each in found if len(each.seconds) >= MIN_JOBS]


def simulate(seconds: Sequence[float], step_error: float, spread_of: SpreadOf, own: int = 0) -> list[tuple[bool, bool]]:
    """Probe every job of a recording, and compare the projection with another job of it, drawn at random.

    A projection is the job's time with the error of its steps. `spread_of` gets the seconds of `own` other jobs.
    Returns, for each pair, whether the interval contains the time of the other job, and whether one of two such probes
    is called the cheapest. Empty for a recording with too few jobs.
    """
    random, error, pairs = np.random.default_rng(SEED), STEP_FACTOR * step_error / 1.96, []
    for at in range(len(seconds) if len(seconds) > own + 1 else 0):
        others = np.delete(np.arange(len(seconds)), at)
        for _ in range(DRAWS):
            following, *repeats = random.permutation(others)[: 1 + own]
            spread = spread_of([seconds[each] for each in repeats])
            if spread is None:
                raise ValueError(f"{own} repeats give no spread.")
            first, second = (seconds[each] * math.exp(random.normal(0, error)) for each in (at, following))
            held = abs(seconds[following] / first - 1) <= next_job_error(step_error, spread)
            pairs.append((held, are_separated((first, second), (step_error,) * 2, (spread,) * 2)))
    return pairs


def from_jobs(*settings: Sequence[float]) -> SpreadOf:
    """Return a function that ignores the own repeats and takes the spread from these jobs."""
    spread = job_spread(settings)
    return lambda _: spread


def rows(recorded: Sequence[Recorded]) -> Iterator[Row]:
    """Yield the shares with own repeats, and with the spreads that a probe does not use."""
    idle, busy = ([each for each in recorded if each.is_disturbed is state] for state in (False, True))
    for step_error in STEP_ERRORS:
        steps = f"steps known to {step_error:.1%}"
        own = [simulate(each.seconds, step_error, lambda few: job_spread([few]), OWN_REPEATS) for each in idle]
        yield from shares(f"{steps}, {OWN_REPEATS} own repeats", own, has_target=True)
        same = [
            simulate(each.seconds, step_error, from_jobs(other.seconds))
            for each in idle
            for other in idle
            if other is not each and other.setting == each.setting
        ]
        yield from shares(f"{steps}, own repeats of another day", same, has_target=True)
        for place, tested in (("idle", idle), ("beside load", busy)):
            foreign = [
                simulate(
                    each.seconds,
                    step_error,
                    from_jobs(*(other.seconds for other in idle if other.workload != each.workload)),
                )
                for each in tested
            ]
            yield from shares(f"{steps}, spread of the other workloads, {place}", foreign)


def shares(name: str, simulated: Sequence[list[tuple[bool, bool]]], *, has_target: bool = False) -> Iterator[Row]:
    """Yield the mean of the recordings' shares, and the worst share of next jobs held."""
    held, named = (100 * np.array([np.mean(pairs, axis=0) for pairs in simulated if pairs])).T
    limits = {"least": 90.0, "most": 98.0} if has_target else {}
    yield figure(f"next jobs held: {name}", float(held.mean()), "%", n=len(held), **limits)
    yield figure(f"next jobs held, worst recording: {name}", float(held.min()), "%", n=len(held))
    if has_target:
        label = f"equal arms, one called the cheapest: {name}"
        yield figure(label, float(named.mean()), "%", most=5, n=len(named))


if __name__ == "__main__":
    write("next_job", list(rows(recordings())))
