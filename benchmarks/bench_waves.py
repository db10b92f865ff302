"""Error rates and job counts of comparisons that stop by themselves, simulated with recorded noise.

A *false verdict* calls a setting cheaper or dearer than itself. The cost alone is judged, unless a row names the
quality.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from benchmarks.recorded.appendix import ending
from benchmarks.recorded.noise import (
    ACCURACY,
    FOLDER,
    Ended,
    Noise,
    Setting,
    Waves,
    normal,
    other_draws,
    read,
    recorded_noise,
    resampled,
    simulations,
    slowdown_draws,
)
from benchmarks.recorded.situations import CASES, Judge, endings
from benchmarks.support.results import Row, figure, write
from judging.design import Design

COMPARISONS = 2_000
HARD_COMPARISONS = 4_000
SEED = 20261122
GAIN = 0.9
"""Cost of an arm that costs 10 % less, relative to the baseline's."""
PLAIN = "recorded noise"
"""Noise for which the targets on gains and job counts hold."""
MAX_FALSE_PERCENT, MAX_JOBS, MIN_DETECTED_PERCENT = 5.0, 9.5, 95.0
MAX_JOBS_WITH_QUALITY, MIN_DETECTED_WITH_QUALITY_PERCENT = 10.0, 90.0
QUALITY_SPREAD = 0.01
COLD = Setting(cold_ratio=1.5)
"""An arm whose first job has a cold compile cache."""
FAILING = Setting(failure_rate=0.1)

Targets = tuple[float | None, float | None] | None
Changes = Mapping[str, Any]
"""Fields of `Waves` that a scenario changes."""


def noises(noise: Noise) -> dict[str, Changes]:
    draws = {PLAIN: resampled(noise.seconds), **other_draws(noise)}
    disturbed = {
        f"one job in ten disturbed, {name}, when_disturbed: {rule}": {
            "slowdowns": draw,
            "design": Design(when_disturbed=rule),
        }
        for name, draw in slowdown_draws(noise).items()
        for rule in ("keep", "repeat")
    }
    return {**{name: {"seconds": draw} for name, draw in draws.items()}, **disturbed}


EQUAL: Mapping[str, Changes] = {
    "whole seconds, jobs of 40 s": {"whole_seconds": True},
    "the launcher is replaced after every job": {"interrupts": True},
    "4 equal settings": {"arms": (Setting(),) * 4},
    "8 equal settings": {"arms": (Setting(),) * 8},
    "both fail in 10 % of their jobs": {"arms": (FAILING, FAILING)},
    "both start with a cold cache": {"arms": (COLD, COLD)},
    "one starts with a cold cache": {"arms": (Setting(), COLD)},
}
"""Comparisons of equal settings."""
DEARER: Mapping[str, Setting] = {
    "an arm that fails in 10 % of its jobs, and otherwise costs the same, is called cheaper": FAILING,
    "an arm that fails in 30 % of its jobs, and otherwise costs the same, is called cheaper": Setting(failure_rate=0.3),
    # It is dearer for each usable model.
    "an arm that fails in 30 % of its jobs, and otherwise costs 10 % less, is called cheaper": Setting(
        ratio=GAIN, failure_rate=0.3
    ),
}
BETTER = Setting(ratio=GAIN)
GAINS: Mapping[str, Changes] = {
    "one of 7 arms": {"arms": (Setting(), BETTER, *(Setting(),) * 6)},
    "both fail in 10 % of their jobs": {"arms": (FAILING, replace(FAILING, ratio=GAIN))},
    "one starts with a cold cache": {"arms": (Setting(), replace(COLD, ratio=GAIN))},
}
"""Comparisons of which the first arm costs 10 % less than the baseline."""


def qualities(noise: Noise) -> dict[str, Changes]:
    """Return the kinds of noise of the quality by name."""
    recorded = float(np.sqrt(np.mean(noise.quality**2)))
    paired = {"scores": resampled(noise.quality), "is_paired": True}
    apart = {**paired, "seed_differences": normal(QUALITY_SPREAD)}
    return {
        **{f"accuracy with a spread of {each:.2g}": {"scores": normal(each)} for each in (QUALITY_SPREAD, recorded)},
        "recorded accuracies, seed by seed": paired,
        f"recorded accuracies, seed by seed, with differences of {QUALITY_SPREAD:g}": apart,
    }


def rows(noise: Noise, comparisons: int = COMPARISONS) -> Iterator[Row]:
    def ended(changes: Changes) -> Sequence[Ended]:
        return simulations(Waves(**{"seconds": resampled(noise.seconds), **changes}), comparisons, SEED)

    for name, changes in {**noises(noise), **EQUAL}.items():
        ends = ended(changes)
        decided = [bool({"cheaper", "dearer"} & {*each.reasons}) for each in ends]
        yield _share(f"false verdicts: {name}", decided, most=MAX_FALSE_PERCENT)
        most = MAX_JOBS if name == PLAIN else None
        yield _jobs(f"jobs of a comparison of two equal settings: {name}", ends, most)
    for name, setting in DEARER.items():
        yield _called_cheaper(name, ended({"arms": (Setting(), setting)}))
    for name, changes in {**noises(noise), **GAINS}.items():
        targets: Targets = (MIN_DETECTED_PERCENT, MAX_JOBS) if name == PLAIN else None
        yield from _gain("a gain of 10 %", name, ended({"arms": (Setting(), BETTER), **changes}), targets)
    for number, (name, changes) in enumerate(qualities(noise).items()):
        most = MAX_JOBS_WITH_QUALITY if changes.get("is_paired") else None
        targets = (MIN_DETECTED_WITH_QUALITY_PERCENT, most) if number in (0, 2) else None
        same = ended({"arms": (Setting(), BETTER), **changes})
        yield from _gain("a gain of 10 % at equal quality", name, same, targets)
        for margins in (1, 2):
            worse = replace(BETTER, accuracy=BETTER.accuracy - margins * ACCURACY.margin)
            label = f"an arm that costs 10 % less and is worse by {margins} x the margin is called cheaper: {name}"
            yield _called_cheaper(label, ended({"arms": (Setting(), worse), **changes}))


def hard_rows(comparisons: int = HARD_COMPARISONS, judge: Judge = ending) -> Iterator[Row]:
    """Yield, for each situation, wrong verdicts, the power at a true gain of 10 %, and the jobs of both arms.

    `judge` ends a comparison; the default follows the appendix of docs/judging.md without the product's formulas.
    """
    for name, case in CASES.items():
        ends = endings(case.situation, comparisons, SEED, judge)
        better = endings(replace(case.situation, **case.better), comparisons, SEED, judge)
        yield _share(f"wrong: {name}", [each.reason in case.wrong for each in ends], most=case.most)
        yield _share(f"a gain of 10 % found: {name}", [each.reason == "cheaper" for each in better])
        for label, of in (("", ends), (" with a gain of 10 %", better)):
            yield figure(
                f"jobs{label}: {name}", 2 * fmean(each.repeats for each in of), "jobs on average", n=comparisons
            )


def _gain(
    label: str, name: str, ends: Sequence[Ended], targets: tuple[float | None, float | None] | None
) -> Iterator[Row]:
    """Yield how often the gain is found, and with how many jobs. `targets` are the least share and the most jobs."""
    least, most = targets or (None, None)
    yield _share(f"{label} found: {name}", [each.reasons[0] == "cheaper" for each in ends], least=least)
    yield _jobs(f"jobs of a comparison with {label}: {name}", ends, most)


def _called_cheaper(name: str, ends: Sequence[Ended]) -> Row:
    return _share(name, ["cheaper" in each.reasons for each in ends], most=MAX_FALSE_PERCENT)


def cold_rows() -> Iterator[Row]:
    """Yield how much the recorded jobs with a cold and with a warm compile cache spread, in percent of their mean."""
    for name in sorted(path.stem for path in FOLDER.glob("*-inductor.json")):
        rows = [row for recording in read(name) for row in recording.rows]
        for state in ("cold", "warm"):
            logs = [math.log(float(row["billable_seconds"])) for row in rows if row["cache_state"] == state]
            yield figure(f"spread of recorded {state} jobs: {name}", 100 * stdev(logs), "%", n=len(logs))


def _share(name: str, cases: Sequence[bool], *, least: float | None = None, most: float | None = None) -> Row:
    return figure(name, 100 * fmean(cases), "%", least=least, most=most, n=len(cases))


def _jobs(name: str, ends: Sequence[Ended], most: float | None) -> Row:
    return figure(name, fmean(each.jobs for each in ends), "jobs on average", most=most, n=len(ends))


if __name__ == "__main__":
    write("waves", [*rows(recorded_noise()), *hard_rows(), *cold_rows()])
