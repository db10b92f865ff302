"""How often a verdict misleads, and how often it finds a true gain: comparisons simulated with recorded noise.

A *false verdict* is one that calls a setting cheaper or dearer than itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.recorded import repeats_table
from benchmarks.recorded.noise import Noise, Numbers, recorded
from benchmarks.recorded.repeats_table import Repeat
from benchmarks.recorded.simulated_comparisons import ACCURACY, Arm, Course, Draw, job, outcomes, said, table_of
from benchmarks.support.results import Row, write
from experiments.schema.fields import Compare
from experiments.schema.sweep_fields import Sweep
from reports.comparison.comparison import compare

COMPARISONS = 4_000
SEED = 20261122
MOST_FALSE = 5.0
LEAST_FOUND = 80.0
GAIN = 0.9
"""Ten percent fewer seconds."""
DEFAULT = Compare().repeats
SIDE = 3
"""Jobs a side of the comparisons that are made of recorded jobs."""

Saying = Callable[[Sequence[str]], bool]


def is_decided(outcomes: Sequence[str]) -> bool:
    """Tell whether any arm is called cheaper or dearer."""
    return any(outcome in ("cheaper", "not cheaper") for outcome in outcomes)


def is_cheaper(outcomes: Sequence[str]) -> bool:
    """Tell whether any arm is called cheaper."""
    return "cheaper" in outcomes


def resampled(values: Numbers) -> Draw:
    """Draw from what was recorded, each job by itself."""
    return lambda random, jobs: random.choice(values, jobs)


def in_order(values: Numbers) -> Draw:
    """Draw jobs that were recorded one after the other: a slow spell stays one."""
    return lambda random, jobs: np.take(values, random.integers(len(values)) + np.arange(jobs), mode="wrap")


def normal(spread: float) -> Draw:
    """Draw from a normal distribution."""
    return lambda random, jobs: spread * random.standard_normal(jobs)


def heavy(spread: float) -> Draw:
    """Draw from Student's t with three degrees of freedom, at the same standard deviation."""
    return lambda random, jobs: spread / 3**0.5 * random.standard_t(3, jobs)


def with_spells(draw: Draw) -> Draw:
    """Let one job in ten begin a spell of one to four jobs that are 1.2 to 3 times as slow."""

    def drawn(random: Generator, jobs: int) -> Numbers:
        found = draw(random, jobs)
        for begin in np.flatnonzero(random.random(jobs) < 0.1):
            found[begin : begin + random.integers(1, 5)] += np.log(random.uniform(1.2, 3.0))
        return found

    return drawn


def with_drift(draw: Draw, each: float = 0.02) -> Draw:
    """Let every job be so much slower than the one before it."""
    return lambda random, jobs: draw(random, jobs) + each * np.arange(jobs)


def share(course: Course, is_said: Saying) -> float:
    """Return in how many of a hundred comparisons it is said."""
    return 100 * sum(map(is_said, outcomes(course, COMPARISONS, SEED))) / COMPARISONS


def false_row(name: str, course: Course, *, is_promised: bool = True) -> Row:
    """Return how often a setting is called cheaper or dearer than itself."""
    value = share(course, is_decided)
    promise: dict[str, Any] = {"target": f"at most {MOST_FALSE:g} %", "met": value <= MOST_FALSE} if is_promised else {}
    return Row(name=f"false verdicts: {name}", value=value, unit="%", n=COMPARISONS, **promise)


def found_row(name: str, course: Course, *, ratio: float = GAIN, is_promised: bool = True) -> Row:
    """Return how often an arm of that true ratio is found to be cheaper."""
    baseline, arm, *others = course.arms
    value = share(replace(course, arms=(baseline, replace(arm, ratio=ratio), *others)), is_cheaper)
    promise: dict[str, Any] = {"target": f"at least {LEAST_FOUND:g} %", "met": value >= LEAST_FOUND}
    told = f"a gain of {100 * (1 - ratio):.0f} % found: {name}"
    return Row(name=told, value=value, unit="%", n=COMPARISONS, **(promise if is_promised else {}))


def false_rows(noise: Noise) -> list[Row]:
    """Return the figures of settings compared with themselves."""
    plain = course(noise)
    slow_start = (Arm(cold_start=True), Arm())
    by_repeats = [(n, replace(plain, repeats=n)) for n in sorted({3, 4, 5, 6, 8, 10, DEFAULT})]
    return [
        *(false_row(f"recorded noise, {n} repeats", each) for n, each in by_repeats),
        false_row("jobs in their recorded order", replace(plain, seconds=in_order(noise.seconds))),
        false_row("normal noise of that spread", replace(plain, seconds=normal(noise.spread))),
        false_row("heavy tails (t, 3 degrees of freedom)", replace(plain, seconds=heavy(noise.spread))),
        false_row("slow spells", replace(plain, seconds=with_spells(plain.seconds))),
        false_row("each job 2 % slower than the last", replace(plain, seconds=with_drift(plain.seconds))),
        *_disturbed(noise),
        false_row("whole seconds, jobs of 40 s", replace(plain, whole_seconds=True)),
        false_row(
            "whole seconds, jobs that differ by 0.3 s", replace(plain, whole_seconds=True, seconds=normal(0.0075))
        ),
        false_row("the first job of one side compiles", replace(plain, arms=slow_start)),
        false_row(
            "the first job of one side compiles, and that side is 3 times as noisy",
            replace(plain, arms=(Arm(), Arm(cold_start=True, spread=3.0))),
            is_promised=False,
        ),
        false_row(
            "each job 2 % slower than the last, one side after the other",
            replace(plain, seconds=with_drift(plain.seconds), in_turn=False),
            is_promised=False,
        ),
        *(_any_cheaper(replace(plain, arms=(Arm(),) * arms), arms) for arms in (2, 4, 8)),
    ]


def _disturbed(noise: Noise) -> list[Row]:
    values = noise.disturbed_seconds
    name = "noise recorded while other programs ran"
    told = [replace(course(noise), seconds=resampled(values))] if len(values) else []
    return [false_row(f"{name}, {len(values)} jobs", each, is_promised=False) for each in told]


def _any_cheaper(course: Course, arms: int) -> Row:
    value = share(course, is_cheaper)
    return Row(name=f"one of {arms} equal settings called the cheapest", value=value, unit="%", n=COMPARISONS)


def found_rows(noise: Noise) -> list[Row]:
    """Return the figures of arms that truly are cheaper."""
    plain = course(noise)
    alike, compiled = replace(plain, trains_alike=True), (Arm(), Arm(cold_start=True))
    return [
        *(
            found_row(f"recorded noise, {n} repeats", replace(plain, repeats=n), is_promised=n == DEFAULT)
            for n in sorted({3, 4, 5, 6, 7, 8, 10, DEFAULT})
        ),
        *(
            found_row(f"an arm that trains alike, {n} repeats", replace(alike, repeats=n), is_promised=n == 5)
            for n in (3, 4, 5)
        ),
        found_row("its first job compiles", replace(plain, arms=compiled)),
        found_row("whole seconds, jobs of 40 s", replace(plain, whole_seconds=True)),
        found_row("jobs in their recorded order", replace(plain, seconds=in_order(noise.seconds)), is_promised=False),
        found_row("slow spells", replace(plain, seconds=with_spells(plain.seconds)), is_promised=False),
        found_row(
            "each job 2 % slower than the last",
            replace(plain, seconds=with_drift(plain.seconds)),
            is_promised=False,
        ),
        found_row(
            f"a sweep's {Sweep().repeats} repeats, recorded noise",
            replace(plain, repeats=Sweep().repeats),
            ratio=0.8,
            is_promised=False,
        ),
    ]


def course(noise: Noise) -> Course:
    """Return a comparison of two equal settings with the recorded noise at the default number of repeats."""
    return Course(seconds=resampled(noise.seconds), quality=resampled(noise.quality), repeats=DEFAULT)


def grid_row(settings: Sequence[Sequence[float]]) -> Row:
    """Return what the report says of each setting's recorded jobs, dealt to two sides in turn."""
    told = [[job(str(at % 2), at // 2, at, s, ACCURACY, "off") for at, s in enumerate(each)] for each in settings]
    false = sum(is_decided(said(compare(table_of(jobs), "recorded"))) for jobs in told)
    name = f"real jobs of {len(settings)} settings, those of each dealt to two sides: false verdicts"
    return Row(name=name, value=false, unit=f"of {len(settings)}", n=len(settings))


def real_row(name: str, rows: Sequence[Repeat]) -> Row:
    """Return what the report says of recorded jobs of one setting, dealt to two sides in turn."""
    found = [
        comparison for at in range(0, len(rows) - 2 * SIDE + 1, 2 * SIDE) if (comparison := rows[at : at + 2 * SIDE])
    ]
    false = sum(is_decided(said(compare(_dealt(each), name))) for each in found)
    return Row(
        name=f"real jobs of {name}: false verdicts in comparisons of {SIDE} against {SIDE}",
        value=false,
        unit=f"of {len(found)}",
        n=len(found),
    )


def _dealt(rows: Sequence[Repeat]) -> Any:
    jobs = [
        job(str(number % 2), number // 2, number, row.billable_seconds, row.eval_accuracy, row.cache_state)
        for number, row in enumerate(rows)
    ]
    return table_of(jobs)


def main() -> None:
    """Simulate all, and write the figures."""
    noise = recorded()
    if not len(noise.quality):
        sys.exit("error: no repeats are recorded: benchmarks.recorded.record_repeats does it")
    tables = {name: told.rows for name in repeats_table.names() if (told := repeats_table.read(name))}
    rows = [
        Row(name="spread of equal jobs", value=100 * noise.spread, unit="% of their seconds", n=len(noise.seconds)),
        Row(name="spread of their accuracy", value=float(np.std(noise.quality)), unit="", n=len(noise.quality)),
        *false_rows(noise),
        *found_rows(noise),
        grid_row(noise.settings),
        *(real_row(name, told) for name, told in tables.items() if len(told) >= 2 * SIDE),
    ]
    write(
        "verdict",
        rows,
        [
            "A false verdict calls a setting cheaper or dearer than itself. Each figure is of simulated comparisons "
            f"that the report judges as it does real ones; {DEFAULT} repeats a side where no number is told.",
            "The bounds are those of a 95 % interval, so 5 % is what is expected at the most; of so many comparisons "
            "such a share is known to 0.7 points (95 %).",
            f"Recorded noise: what {len(noise.seconds)} jobs of {len(noise.settings)} settings deviate from their "
            "setting's mean by (benchmarks/grids: jobs of one batch size at equal samples; benchmarks/repeats: one "
            "setting with other seeds), and what the accuracy of the repeats does.",
            "A gain is found where the verdict is cheaper, so the quality has to count as kept too: its noise is drawn "
            "anew for every job, as where batch sizes differ. Arms that train alike, as under another compiler, share "
            "it: their jobs of one seed reach the same.",
            "Real jobs are dealt to two sides in the order in which they ran, every second one to the other side, and "
            f"each is in one comparison only: {2 * SIDE} repeats make one, or the jobs of one batch size.",
        ],
    )


if __name__ == "__main__":
    main()
