"""Simulated comparisons whose repeats arrive in waves: jobs one after the other, with a look after each wave."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.noise import Numbers
from judging.design import Design
from judging.quality import MEASURES, Measure
from judging.result import CacheState, Result
from judging.sequential import Reason
from judging.waves import Job, progress

Draw = Callable[[Generator, int], Numbers]
"""Draws deviations of this many consecutive jobs: of the log seconds, or of the scores."""
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
    scores: Draw | None = None
    """Noise of the accuracy; None judges the cost alone."""
    is_paired: bool = False
    """True if the same seed gives all arms the same deviation, and the arms are compared seed by seed."""
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
    """Jobs of all arms and of the baseline."""


def simulate_waves(waves: Waves, random: Generator) -> Ended:
    """Run the waves of one comparison until every arm has stopped."""
    labels = waves.labels
    results_of = _results(waves, random)
    results: dict[Job, Result | None] = {}
    resolution = float(waves.whole_seconds)
    paired = frozenset(labels[1:]) if waves.is_paired else frozenset[str]()
    while (
        state := progress(waves.design, labels, results, measure=waves.measure, paired=paired, resolution=resolution)
    ).due:
        results |= {job: results_of(job) for job in (state.due[:1] if waves.interrupts else state.due)}
    return Ended(tuple(state.stopped[label] for label in labels[1:]), len(results))


def simulations(waves: Waves, comparisons: int, seed: int) -> Sequence[Ended]:
    """Return the ends of this many comparisons."""
    random = np.random.default_rng(seed)
    return [simulate_waves(waves, random) for _ in range(comparisons)]


def _results(waves: Waves, random: Generator) -> Callable[[Job], Result]:
    """Return the function that runs a job. Jobs take the drawn deviations in the order in which they run."""
    jobs, repeats = len(waves.arms) * waves.design.looks[-1], waves.design.looks[-1]
    deviations = iter(waves.seconds(random, jobs))
    failures = iter(random.random((jobs, 2)))
    scores = _scores(waves, random, repeats)

    def result(job: Job) -> Result:
        arm, repeat = int(job[0]), job[1]
        setting = waves.arms[arm]
        is_cold = setting.cold_ratio is not None and repeat == 0
        ratio = setting.cold_ratio if is_cold and setting.cold_ratio is not None else setting.ratio
        seconds = waves.job_seconds * ratio * math.exp(float(next(deviations)))
        cost = float(math.ceil(seconds)) if waves.whole_seconds else seconds
        draw, part = next(failures)
        if draw < setting.failure_rate:
            return Result(cost * float(part), succeeded=False, repeat=repeat)
        return Result(cost, scores[arm][repeat], repeat=repeat, cache=_cache(setting, is_cold=is_cold))

    return result


def _scores(waves: Waves, random: Generator, repeats: int) -> list[list[float]]:
    """Return the accuracy by arm and repeat; NaN if the cost alone is judged."""
    return [
        [setting.accuracy + deviation for deviation in deviations]
        for setting, deviations in zip(waves.arms, _score_deviations(waves, random, repeats), strict=True)
    ]


def _score_deviations(waves: Waves, random: Generator, repeats: int) -> Iterator[list[float]]:
    shared = waves.scores(random, repeats).tolist() if waves.scores else [math.nan] * repeats
    for _ in waves.arms:
        yield shared if waves.is_paired or waves.scores is None else waves.scores(random, repeats).tolist()


def _cache(setting: Setting, *, is_cold: bool) -> CacheState:
    if setting.cold_ratio is None:
        return "off"
    return "cold" if is_cold else "warm"
