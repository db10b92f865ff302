"""Error rates and job counts of comparisons that stop by themselves, simulated with recorded noise.

A *false verdict* calls a setting cheaper or dearer than itself. The cost alone is judged, unless a row names the
quality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.draws import Draw, heavy, in_order, normal, resampled, with_drift, with_spells
from benchmarks.recorded.noise import Noise, Numbers, recorded_noise
from benchmarks.recorded.simulated_waves import ACCURACY, Ended, Setting, Waves, simulations
from benchmarks.support.results import Row, write
from judging.design import Design

COMPARISONS = 2_000
SEED = 20261122
GAIN = 0.9
"""Cost of an arm that costs 10 % less, relative to the baseline's."""
MAX_FALSE = 5.0
MIN_DETECTED_PERCENT = 95.0
MAX_JOBS = 9.5
MIN_DETECTED_WITH_QUALITY_PERCENT = 90.0
MAX_JOBS_WITH_QUALITY = 10.0
QUALITY_SPREAD = 0.01
MARGIN = ACCURACY.margin
COLD_RATIO = 1.5
"""Cost of a job with a cold compile cache, relative to one with a warm cache."""
MANY = 1_000_000
"""Number of trainings of which the first, cold one counts nothing."""

Is = Callable[[Ended], bool]


def is_decided(ended: Ended) -> bool:
    """Return True if any arm is called cheaper or dearer."""
    return any(reason in ("cheaper", "dearer") for reason in ended.reasons)


def is_cheaper(ended: Ended) -> bool:
    """Return True if any arm is called cheaper."""
    return "cheaper" in ended.reasons


def first_is_cheaper(ended: Ended) -> bool:
    """Return True if the first arm is called cheaper."""
    return ended.reasons[0] == "cheaper"


def two_to_ten(random: Generator, jobs: int) -> Numbers:
    """Draw slowdowns between 2 and 10 times, which other load on a machine was measured to cause."""
    return np.log(random.uniform(2.0, 10.0, jobs))


def draws(noise: Noise) -> dict[str, Draw]:
    """Return the kinds of noise by name."""
    plain = resampled(noise.seconds)
    kinds = {
        PLAIN: plain,
        "jobs in their recorded order": in_order(noise.seconds),
        "normal noise of the same spread": normal(noise.spread),
        "heavy tails (t, 3 degrees of freedom)": heavy(noise.spread),
        "slow periods": with_spells(plain),
        "each job 2 % slower than the last": with_drift(plain),
    }
    if len(noise.disturbed_seconds):
        kinds["recorded noise of a busy machine"] = resampled(noise.disturbed_seconds)
    return kinds


def slowdowns(noise: Noise) -> dict[str, Draw]:
    """Return the kinds of slowdowns of disturbed jobs by name."""
    kinds: dict[str, Draw] = {"2 to 10 times as slow": two_to_ten}
    if len(noise.slowdowns):
        kinds["as slow as recorded on a busy machine"] = resampled(noise.slowdowns)
    return kinds


PLAIN = "recorded noise"
"""Noise for which the targets on gains and job counts hold."""


def rows(noise: Noise, comparisons: int = COMPARISONS) -> Iterator[Row]:
    """Yield the rows of every scenario."""

    def simulated(waves: Waves) -> Sequence[Ended]:
        return simulations(waves, comparisons, SEED)

    plain = Waves(seconds=resampled(noise.seconds))
    yield from _equal_rows(noise, plain, simulated)
    yield from _failure_rows(plain, simulated)
    yield from _disturbed_rows(noise, plain, simulated)
    yield from _cache_rows(plain, simulated)
    yield from _gain_rows(noise, plain, simulated)
    yield from _quality_rows(noise, plain, simulated)


Simulated = Callable[[Waves], Sequence[Ended]]


def _equal_rows(noise: Noise, plain: Waves, simulated: Simulated) -> Iterator[Row]:
    """Yield the rows of equal settings."""
    for name, draw in draws(noise).items():
        ended = simulated(replace(plain, seconds=draw))
        yield _at_most(f"false verdicts: {name}", ended, is_decided)
        yield _jobs_row(
            f"jobs of a comparison of two equal settings: {name}", ended, MAX_JOBS if name == PLAIN else None
        )
    others = {
        "whole seconds, jobs of 40 s": replace(plain, whole_seconds=True),
        "the launcher is replaced after every job": replace(plain, interrupts=True),
        "4 equal settings": replace(plain, arms=(Setting(),) * 4),
        "8 equal settings": replace(plain, arms=(Setting(),) * 8),
    }
    for name, waves in others.items():
        yield _at_most(f"false verdicts: {name}", simulated(waves), is_decided)


def _failure_rows(plain: Waves, simulated: Simulated) -> Iterator[Row]:
    """Yield the rows of arms whose jobs fail. An arm that fails more often than the baseline is truly dearer."""
    both = (Setting(failure_rate=0.1),) * 2
    yield _at_most("false verdicts: both fail in 10 % of their jobs", simulated(replace(plain, arms=both)), is_decided)
    for rate in (0.1, 0.3):
        one = replace(plain, arms=(Setting(), Setting(failure_rate=rate)))
        name = f"an arm that fails in {100 * rate:.0f} % of its jobs, and otherwise costs the same, is called cheaper"
        yield _at_most(name, simulated(one), is_cheaper)
    dearer = replace(plain, arms=(Setting(), Setting(ratio=GAIN, failure_rate=0.3)))
    name = "an arm that fails in 30 % of its jobs, and otherwise costs 10 % less, is called cheaper"
    yield _at_most(name, simulated(dearer), is_cheaper)


def _disturbed_rows(noise: Noise, plain: Waves, simulated: Simulated) -> Iterator[Row]:
    """Yield the rows of comparisons of which one job in ten, on average, is disturbed."""
    for name, draw in slowdowns(noise).items():
        for rule in ("keep", "repeat"):
            waves = replace(plain, slowdowns=draw, design=Design(when_disturbed=rule))
            label = f"one job in ten disturbed, {name}, when_disturbed: {rule}"
            ended = simulated(waves)
            yield _at_most(f"false verdicts: {label}", ended, is_decided)
            yield _jobs_row(f"jobs of a comparison of two equal settings: {label}", ended, None)
            gain = simulated(replace(waves, arms=(Setting(), Setting(ratio=GAIN))))
            yield from _detection_rows("a gain of 10 %", label, gain)


def _cache_rows(plain: Waves, simulated: Simulated) -> Iterator[Row]:
    """Yield the rows of arms whose first job has a cold compile cache, and costs 1.5 times as much as later ones."""
    compiled = Setting(cold_ratio=COLD_RATIO)
    both = replace(plain, arms=(compiled, compiled))
    one = replace(plain, arms=(Setting(), compiled))
    many = Design(trainings=MANY)
    yield _at_most("false verdicts: both start with a cold cache, one training", simulated(both), is_decided)
    yield _at_most(
        "false verdicts: both start with a cold cache, many trainings",
        simulated(replace(both, design=many)),
        is_decided,
    )
    yield _at_most(
        "false verdicts: one starts with a cold cache, many trainings", simulated(replace(one, design=many)), is_decided
    )
    yield _at_most(
        "an arm that starts with a cold cache is called cheaper for one training", simulated(one), is_cheaper
    )
    gain = replace(plain, arms=(Setting(), Setting(ratio=GAIN, cold_ratio=COLD_RATIO)), design=many)
    yield from _detection_rows("a gain of 10 %", "one starts with a cold cache, many trainings", simulated(gain))


def _gain_rows(noise: Noise, plain: Waves, simulated: Simulated) -> Iterator[Row]:
    """Yield the rows of an arm that costs 10 % less."""
    better = Setting(ratio=GAIN)
    for name, draw in draws(noise).items():
        ended = simulated(replace(plain, seconds=draw, arms=(Setting(), better)))
        yield from _detection_rows("a gain of 10 %", name, ended, has_target=name == PLAIN)
    others = (Setting(),) * 6
    ended = simulated(replace(plain, arms=(Setting(), better, *others)))
    yield from _detection_rows("a gain of 10 %", "one of 7 arms", ended)
    fail = replace(plain, arms=(Setting(failure_rate=0.1), Setting(ratio=GAIN, failure_rate=0.1)))
    yield from _detection_rows("a gain of 10 %", "both fail in 10 % of their jobs", simulated(fail))


def _quality_rows(noise: Noise, plain: Waves, simulated: Simulated) -> Iterator[Row]:
    """Yield the rows of comparisons whose quality is judged too."""
    recorded = float(np.sqrt(np.mean(noise.quality**2)))
    for spread in (QUALITY_SPREAD, recorded):
        waves = replace(plain, scores=normal(spread))
        name = f"accuracy with a spread of {spread:.2g}"
        yield from _margin_rows(name, waves, simulated, has_target=spread == QUALITY_SPREAD)
    paired = replace(plain, scores=resampled(noise.quality), is_paired=True)
    yield from _margin_rows("recorded accuracies, seed by seed", paired, simulated)
    apart = replace(paired, seed_differences=normal(QUALITY_SPREAD))
    name = f"recorded accuracies, seed by seed, with differences of {QUALITY_SPREAD:g}"
    yield from _margin_rows(name, apart, simulated)


def _margin_rows(name: str, waves: Waves, simulated: Simulated, *, has_target: bool = False) -> Iterator[Row]:
    """Yield the rows of an arm that costs 10 % less, and whose quality is equal or worse."""
    same = simulated(replace(waves, arms=(Setting(), Setting(ratio=GAIN))))
    yield from _quality_detection_rows(name, same, has_target=has_target)
    for margins in (1, 2):
        worse = Setting(ratio=GAIN, accuracy=Setting().accuracy - margins * MARGIN)
        label = f"an arm that costs 10 % less and is worse by {margins} x the margin is called cheaper: {name}"
        yield _at_most(label, simulated(replace(waves, arms=(Setting(), worse))), is_cheaper)


def _quality_detection_rows(name: str, ended: Sequence[Ended], *, has_target: bool = False) -> Iterator[Row]:
    label = "a gain of 10 % at equal quality"
    targets = (MIN_DETECTED_WITH_QUALITY_PERCENT, MAX_JOBS_WITH_QUALITY) if has_target else None
    yield from _two_rows(label, name, ended, targets)


def _detection_rows(label: str, name: str, ended: Sequence[Ended], *, has_target: bool = False) -> Iterator[Row]:
    yield from _two_rows(label, name, ended, (MIN_DETECTED_PERCENT, MAX_JOBS) if has_target else None)


def _two_rows(label: str, name: str, ended: Sequence[Ended], targets: tuple[float, float] | None) -> Iterator[Row]:
    """Yield how often the gain is found, and with how many jobs. `targets` are the least share and the most jobs."""
    value = 100 * fmean(map(first_is_cheaper, ended))
    target: dict[str, Any] = {"target": f"at least {targets[0]:g} %", "met": value >= targets[0]} if targets else {}
    yield Row(name=f"{label} found: {name}", value=value, unit="%", n=len(ended), **target)
    yield _jobs_row(f"jobs of a comparison with {label}: {name}", ended, targets[1] if targets else None)


def _at_most(name: str, ended: Sequence[Ended], predicate: Is) -> Row:
    value = 100 * fmean(map(predicate, ended))
    target, met = f"at most {MAX_FALSE:g} %", value <= MAX_FALSE
    return Row(name=name, value=value, unit="%", n=len(ended), target=target, met=met)


def _jobs_row(name: str, ended: Sequence[Ended], most: float | None) -> Row:
    value = fmean(each.jobs for each in ended)
    target: dict[str, Any] = {"target": f"at most {most:g}", "met": value <= most} if most else {}
    return Row(name=name, value=value, unit="jobs on average", n=len(ended), **target)


def main() -> None:
    """Simulate all scenarios, and write the figures."""
    noise = recorded_noise()
    write(
        "waves",
        list(rows(noise)),
        [
            "Looks after 3, 5, 7 and 9 repeats of an arm, with the arms' order reversed every round. A gain below 5 % "
            "is not worth having. An arm stops when its cost is shown to differ and its quality to be kept or worse, "
            "or when a gain worth having is ruled out. The allowed error of 5 % is divided over the looks, and among "
            "several arms by Holm's rule.",
            "Three repeats are judged by Welch's t on the logarithms, five and more by ranks: the median of all pairs' "
            "ratios, with the interval of Mann and Whitney's exact test. Arms with cold and warm jobs are judged by "
            "geometric means.",
            f"Recorded noise: the deviations of {len(noise.seconds)} jobs of {len(noise.settings)} settings from their "
            "setting's mean. The jobs are repeats with different seeds (benchmarks/recorded/repeats), and jobs of "
            "the same batch size and number of samples (benchmarks/recorded/grids). The recorded accuracies are those "
            f"of {len(noise.quality)} jobs. The margin of quality is {MARGIN:g}.",
            "A failed job costs half of a successful one on average. An arm that fails in 30 % of its jobs and "
            "otherwise costs 10 % less is therefore 9 % dearer for each usable model. It is called cheaper if none of "
            "its jobs had failed by the look that stopped it. Running all nine repeats would miss that target, too "
            "(decision 0025).",
        ],
    )


if __name__ == "__main__":
    main()
