"""Simulated comparisons whose repeats arrive in waves: jobs one after the other, with a look after each wave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.noise import Draw, Numbers
from judging.design import Design
from judging.result import CacheState, Result
from judging.sequential import Reason
from judging.waves import Job, progress
from tracking.queries.measures import EVALUATIONS

ACCURACY = EVALUATIONS["eval_accuracy"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One arm to simulate."""

    ratio: float = 1.0
    """True cost of a job, relative to a plain job."""
    cold_ratio: float | None = None
    """True cost of the first job, whose compile cache is cold; None for an arm without a cache."""
    failure_rate: float = 0.0
    """Probability that a job fails, after a part of its time that is equally likely to be any."""
    accuracy: float = 0.9


@dataclass(frozen=True, kw_only=True)
class Waves:
    """A comparison to simulate."""

    seconds: Draw
    arms: tuple[Setting, ...] = (Setting(), Setting())
    """The baseline first."""
    slowdowns: Draw | None = None
    """Additional log seconds of a disturbed job; None disturbs no job."""
    disturbed_share: float = 0.1
    """Probability that a job is disturbed, if there are slowdowns. `design.when_disturbed` applies."""
    scores: Draw | None = None
    """Noise of the accuracy; None judges the cost alone."""
    is_paired: bool = False
    """True if the same seed gives all arms the same deviation, and the arms are compared seed by seed."""
    seed_differences: Draw | None = None
    """With `is_paired`, deviations of an arm's accuracy from the baseline's of the same seed; None means none."""
    design: Design = field(default_factory=Design)
    job_seconds: float = 40.0
    whole_seconds: bool = False
    """True if a job bills whole seconds, as on SageMaker."""
    interrupts: bool = False
    """True if the launcher ends after every job and another one continues, as with `attach`."""


@dataclass(frozen=True)
class Ended:
    """The end of a simulated comparison."""

    reasons: tuple[Reason, ...]
    """Reason for which each arm stopped."""
    jobs: int
    """Jobs of all arms and of the baseline, with those that ran again."""


def simulate_waves(waves: Waves, random: Generator) -> Ended:
    """Run the waves of one comparison until every arm has stopped."""
    labels = [str(at) for at in range(len(waves.arms))]
    run = _jobs(waves, random)
    results: dict[Job, Result | None] = {}
    jobs = 0
    while (
        state := progress(
            waves.design,
            labels,
            results,
            measure=ACCURACY if waves.scores else None,
            paired=frozenset(labels[1:]) if waves.is_paired else frozenset[str](),
            resolution=float(waves.whole_seconds),
        )
    ).due:
        for job in state.due[:1] if waves.interrupts else state.due:
            result, is_disturbed = run(job)
            runs_again = is_disturbed and result.succeeded and waves.design.when_disturbed == "repeat"
            results[job] = run(job)[0] if runs_again else result
            jobs += 1 + runs_again
    return Ended(tuple(state.stopped[label] for label in labels[1:]), jobs)


def simulations(waves: Waves, comparisons: int, seed: int) -> Sequence[Ended]:
    """Return the ends of this many comparisons."""
    random = np.random.default_rng(seed)
    return [simulate_waves(waves, random) for _ in range(comparisons)]


def _jobs(waves: Waves, random: Generator) -> Callable[[Job], tuple[Result, bool]]:
    """Return the function that runs a job once. It returns the result, and True if the job was disturbed.

    Jobs take the drawn deviations in the order in which they run.
    """
    repeats = waves.design.looks[-1]
    jobs = (2 if waves.design.when_disturbed == "repeat" else 1) * len(waves.arms) * repeats
    deviations = iter(waves.seconds(random, jobs))
    failures = iter(random.random((jobs, 2)))
    scores = _scores(waves, random, repeats)
    slower = waves.slowdowns(random, jobs) if waves.slowdowns else np.zeros(jobs)
    disturbed = random.random(jobs) < waves.disturbed_share if waves.slowdowns else np.zeros(jobs, dtype=bool)
    slowdowns = iter(zip(slower, disturbed, strict=True))

    def run(job: Job) -> tuple[Result, bool]:
        arm, repeat = int(job[0]), job[1]
        setting, (slowdown, is_disturbed) = waves.arms[arm], next(slowdowns)
        cache: CacheState = "off" if setting.cold_ratio is None else "warm" if repeat else "cold"
        ratio = setting.cold_ratio if cache == "cold" and setting.cold_ratio else setting.ratio
        seconds = waves.job_seconds * ratio * math.exp(float(next(deviations)) + float(slowdown * is_disturbed))
        cost = float(math.ceil(seconds)) if waves.whole_seconds else seconds
        draw, part = next(failures)
        if draw < setting.failure_rate:
            return Result(cost * float(part), succeeded=False, repeat=repeat), bool(is_disturbed)
        return Result(cost, float(scores[arm][repeat]), repeat=repeat, cache=cache), bool(is_disturbed)

    return run


def _scores(waves: Waves, random: Generator, repeats: int) -> list[Numbers]:
    """Return the accuracy by arm and repeat; NaN if the cost alone is judged."""
    if waves.scores is None:
        return [np.full(repeats, math.nan)] * len(waves.arms)
    shared = waves.scores(random, repeats)
    deviations = [shared]
    for _ in waves.arms[1:]:
        if not waves.is_paired:
            deviations.append(waves.scores(random, repeats))
        else:
            deviations.append(shared + waves.seed_differences(random, repeats) if waves.seed_differences else shared)
    return [setting.accuracy + each for setting, each in zip(waves.arms, deviations, strict=True)]
