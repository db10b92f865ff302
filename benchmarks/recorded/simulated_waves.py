"""Simulated comparisons whose repeats arrive in waves: jobs one after the other, with a look after each wave."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.draws import Draw
from judging.design import Design
from judging.quality import MEASURES, Measure
from judging.result import CacheState, Result
from judging.sequential import Reason
from judging.waves import Job, progress

ACCURACY = next(measure for measure in MEASURES if measure.column == "eval_accuracy")


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

    @property
    def labels(self) -> list[str]:
        """Labels of the arms."""
        return [str(at) for at in range(len(self.arms))]

    @property
    def measure(self) -> Measure | None:
        """Measure of the scores."""
        return ACCURACY if self.scores else None


@dataclass(frozen=True)
class Ended:
    """The end of a simulated comparison."""

    reasons: tuple[Reason, ...]
    """Reason for which each arm stopped."""
    jobs: int
    """Jobs of all arms and of the baseline, with those that ran again."""


def simulate_waves(waves: Waves, random: Generator) -> Ended:
    """Run the waves of one comparison until every arm has stopped."""
    labels = waves.labels
    run = _run(waves, random)
    results: dict[Job, Result | None] = {}
    jobs = 0
    resolution = float(waves.whole_seconds)
    paired = frozenset(labels[1:]) if waves.is_paired else frozenset[str]()
    while (
        state := progress(waves.design, labels, results, measure=waves.measure, paired=paired, resolution=resolution)
    ).due:
        for job in state.due[:1] if waves.interrupts else state.due:
            results[job], runs = run(job)
            jobs += runs
    return Ended(tuple(state.stopped[label] for label in labels[1:]), jobs)


def simulations(waves: Waves, comparisons: int, seed: int) -> Sequence[Ended]:
    """Return the ends of this many comparisons."""
    random = np.random.default_rng(seed)
    return [simulate_waves(waves, random) for _ in range(comparisons)]


def _run(waves: Waves, random: Generator) -> Callable[[Job], tuple[Result, int]]:
    """Return the function that runs a job. It returns the result that counts, and how often the job ran."""
    run_once = _run_once(waves, random)

    def run(job: Job) -> tuple[Result, int]:
        result, is_disturbed = run_once(job)
        if is_disturbed and result.succeeded and waves.design.when_disturbed == "repeat":
            return run_once(job)[0], 2
        return result, 1

    return run


def _run_once(waves: Waves, random: Generator) -> Callable[[Job], tuple[Result, bool]]:
    """Return the function that runs a job once. It returns the result, and True if the job was disturbed.

    Jobs take the drawn deviations in the order in which they run.
    """
    repeats = waves.design.looks[-1]
    jobs = (2 if waves.design.when_disturbed == "repeat" else 1) * len(waves.arms) * repeats
    deviations = iter(waves.seconds(random, jobs))
    failures = iter(random.random((jobs, 2)))
    scores = _scores(waves, random, repeats)
    slowdowns = iter(_slowdowns(waves, random, jobs))

    def run(job: Job) -> tuple[Result, bool]:
        arm, repeat = int(job[0]), job[1]
        setting, slowdown = waves.arms[arm], next(slowdowns)
        is_cold = setting.cold_ratio is not None and repeat == 0
        ratio = setting.cold_ratio if is_cold and setting.cold_ratio is not None else setting.ratio
        seconds = waves.job_seconds * ratio * math.exp(float(next(deviations)) + (slowdown or 0.0))
        cost = float(math.ceil(seconds)) if waves.whole_seconds else seconds
        draw, part = next(failures)
        is_disturbed = slowdown is not None
        if draw < setting.failure_rate:
            return Result(cost * float(part), succeeded=False, repeat=repeat), is_disturbed
        return Result(cost, scores[arm][repeat], repeat=repeat, cache=_cache(setting, is_cold=is_cold)), is_disturbed

    return run


def _slowdowns(waves: Waves, random: Generator, jobs: int) -> list[float | None]:
    """Return the additional log seconds of each job; None for a job that is not disturbed."""
    if waves.slowdowns is None:
        return [None] * jobs
    slower, draws = waves.slowdowns(random, jobs), random.random(jobs)
    return [float(each) if draw < waves.disturbed_share else None for each, draw in zip(slower, draws, strict=True)]


def _scores(waves: Waves, random: Generator, repeats: int) -> list[list[float]]:
    """Return the accuracy by arm and repeat; NaN if the cost alone is judged."""
    return [
        [setting.accuracy + deviation for deviation in deviations]
        for setting, deviations in zip(waves.arms, _score_deviations(waves, random, repeats), strict=True)
    ]


def _score_deviations(waves: Waves, random: Generator, repeats: int) -> Iterator[list[float]]:
    if waves.scores is None:
        yield from [[math.nan] * repeats] * len(waves.arms)
        return
    shared = waves.scores(random, repeats)
    yield shared.tolist()
    for _ in waves.arms[1:]:
        if not waves.is_paired:
            yield waves.scores(random, repeats).tolist()
        else:
            yield (shared + waves.seed_differences(random, repeats) if waves.seed_differences else shared).tolist()


def _cache(setting: Setting, *, is_cold: bool) -> CacheState:
    if setting.cold_ratio is None:
        return "off"
    return "cold" if is_cold else "warm"
