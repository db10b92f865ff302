"""Error rates and job counts of comparisons that stop by themselves, simulated with recorded noise.

The cost alone is judged. A *false verdict* calls a setting cheaper or dearer than itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks.bench_verdict import (
    COMPARISONS,
    GAIN,
    MAX_FALSE,
    SEED,
    heavy,
    in_order,
    normal,
    resampled,
    with_drift,
    with_spells,
)
from benchmarks.recorded.noise import Noise, recorded_noise
from benchmarks.recorded.simulated_waves import Draw, Ended, Waves, simulations
from benchmarks.support.results import Row, write

MIN_DETECTED_PERCENT = 95.0
MAX_JOBS = 9.5
DIFFERENT = ("cheaper", "dearer")


def draws(noise: Noise) -> dict[str, Draw]:
    """Return the kinds of noise by name."""
    plain = resampled(noise.seconds)
    return {
        "recorded noise": plain,
        "jobs in their recorded order": in_order(noise.seconds),
        "normal noise of the same spread": normal(noise.spread),
        "heavy tails (t, 3 degrees of freedom)": heavy(noise.spread),
        "slow spells": with_spells(plain),
        "each job 2 % slower than the last": with_drift(plain),
    }


def rows(noise: Noise, comparisons: int = COMPARISONS) -> Iterator[Row]:
    """Yield the rows of every scenario."""
    kinds = draws(noise)
    plain = Waves(seconds=kinds["recorded noise"])
    for name, draw in kinds.items():
        yield from _equal_rows(name, simulations(replace(plain, seconds=draw), comparisons, SEED), name in _ON_TARGET)
    short = replace(plain, whole_seconds=True)
    yield from _equal_rows("whole seconds, jobs of 40 s", simulations(short, comparisons, SEED), False)
    for arms in (4, 8):
        several = replace(plain, ratios=(1.0,) * (arms - 1))
        yield _false_row(f"{arms} equal settings", simulations(several, comparisons, SEED))
    for name, draw in kinds.items():
        better = replace(plain, seconds=draw, ratios=(GAIN,))
        yield from _gain_rows(name, simulations(better, comparisons, SEED), name in _ON_TARGET)
    one_better = replace(plain, ratios=(GAIN, *(1.0,) * 6))
    yield from _gain_rows("one of 7 arms", simulations(one_better, comparisons, SEED), False)


_ON_TARGET = {"recorded noise"}
"""Noise for which the targets on gains and job counts hold."""


def _equal_rows(name: str, ended: Sequence[Ended], has_target: bool) -> Iterator[Row]:
    yield _false_row(name, ended)
    yield _jobs_row(f"jobs until two equal settings stop: {name}", ended, has_target)


def _gain_rows(name: str, ended: Sequence[Ended], has_target: bool) -> Iterator[Row]:
    percentage = 100 * fmean(each.reasons[0] == "cheaper" for each in ended)
    label = f"a gain of {100 * (1 - GAIN):.0f} %"
    target: dict[str, Any] = (
        {"target": f"at least {MIN_DETECTED_PERCENT:g} %", "met": percentage >= MIN_DETECTED_PERCENT}
        if has_target
        else {}
    )
    yield Row(name=f"{label} found: {name}", value=percentage, unit="%", n=len(ended), **target)
    yield _jobs_row(f"jobs until {label} is found: {name}", ended, has_target)


def _false_row(name: str, ended: Sequence[Ended]) -> Row:
    value = 100 * fmean(any(reason in DIFFERENT for reason in each.reasons) for each in ended)
    target, met = f"at most {MAX_FALSE:g} %", value <= MAX_FALSE
    return Row(name=f"false verdicts: {name}", value=value, unit="%", n=len(ended), target=target, met=met)


def _jobs_row(name: str, ended: Sequence[Ended], has_target: bool) -> Row:
    value = fmean(each.jobs for each in ended)
    target: dict[str, Any] = {"target": f"at most {MAX_JOBS:g}", "met": value <= MAX_JOBS} if has_target else {}
    return Row(name=name, value=value, unit="jobs in the mean", n=len(ended), **target)


def main() -> None:
    """Simulate all scenarios, and write the figures."""
    noise = recorded_noise()
    write(
        "waves",
        list(rows(noise)),
        [
            "Looks after 3, 5, 7 and 9 repeats of an arm, with the arms' order reversed every round. A gain below 5 % "
            "is not worth having. An arm stops when its cost is shown to differ, or when a gain worth having is ruled "
            "out. The error of 5 % is spent over the looks, and divided among several arms by Holm's rule.",
            "Three repeats are judged by Welch's t on the logarithms, five and more by ranks: the median of all pairs' "
            "ratios, with the interval of Mann and Whitney's exact test.",
            f"Recorded noise: the deviations of {len(noise.seconds)} jobs, as in the benchmark `verdict`.",
        ],
    )


if __name__ == "__main__":
    main()
