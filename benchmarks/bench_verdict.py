"""Error rates of verdicts, simulated with recorded noise: how often they are false, and how often they detect a gain.

A *false verdict* calls a setting cheaper or more expensive than itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.recorded import repeats_table
from benchmarks.recorded.noise import Noise, Numbers, recorded_noise
from benchmarks.recorded.repeats_table import Repeat
from benchmarks.recorded.simulated_comparisons import (
    ACCURACY,
    Arm,
    Draw,
    Scenario,
    job,
    jobs_table,
    outcomes,
    verdict_outcomes,
)
from benchmarks.support.results import Row, write
from experiments.schema.compare_fields import Compare
from experiments.schema.sweep_fields import Sweep
from reports.comparison.comparison import compare

COMPARISONS = 4_000
SEED = 20261122
MAX_FALSE = 5.0
MIN_DETECTED = 80.0
GAIN = 0.9
"""Ten percent fewer seconds."""
DEFAULT = Compare().repeats
SIDE = 3
"""Jobs on each side of a comparison of recorded jobs."""

Predicate = Callable[[Sequence[str]], bool]


def is_decided(outcomes: Sequence[str]) -> bool:
    """Return True if any arm is called cheaper or more expensive."""
    return any(outcome in ("cheaper", "not cheaper") for outcome in outcomes)


def is_cheaper(outcomes: Sequence[str]) -> bool:
    """Return True if any arm is called cheaper."""
    return "cheaper" in outcomes


def resampled(values: Numbers) -> Draw:
    """Draw from the recorded values, each job independently."""
    return lambda random, jobs: random.choice(values, jobs)


def in_order(values: Numbers) -> Draw:
    """Draw jobs that were recorded one after the other, which keeps slow spells."""
    return lambda random, jobs: np.take(values, random.integers(len(values)) + np.arange(jobs), mode="wrap")


def normal(spread: float) -> Draw:
    """Draw from a normal distribution."""
    return lambda random, jobs: spread * random.standard_normal(jobs)


def heavy(spread: float) -> Draw:
    """Draw from Student's t with three degrees of freedom, with the same standard deviation."""
    return lambda random, jobs: spread / 3**0.5 * random.standard_t(3, jobs)


def with_spells(draw: Draw) -> Draw:
    """Let one job in ten begin a spell of one to four jobs that are 1.2 to 3 times as slow."""

    def drawn(random: Generator, jobs: int) -> Numbers:
        values = draw(random, jobs)
        for begin in np.flatnonzero(random.random(jobs) < 0.1):
            values[begin : begin + random.integers(1, 5)] += np.log(random.uniform(1.2, 3.0))
        return values

    return drawn


def with_drift(draw: Draw, each: float = 0.02) -> Draw:
    """Make each job slower than the one before it by this much."""
    return lambda random, jobs: draw(random, jobs) + each * np.arange(jobs)


def percentage(scenario: Scenario, predicate: Predicate) -> float:
    """Return the percentage of comparisons whose outcomes satisfy the predicate."""
    return 100 * sum(map(predicate, outcomes(scenario, COMPARISONS, SEED))) / COMPARISONS


def false_row(name: str, scenario: Scenario, *, has_target: bool = True) -> Row:
    """Return how often a setting is called cheaper or more expensive than itself."""
    value = percentage(scenario, is_decided)
    limit: dict[str, Any] = {"target": f"at most {MAX_FALSE:g} %", "met": value <= MAX_FALSE} if has_target else {}
    return Row(name=f"false verdicts: {name}", value=value, unit="%", n=COMPARISONS, **limit)


def gain_row(name: str, scenario: Scenario, *, ratio: float = GAIN, has_target: bool = True) -> Row:
    """Return how often an arm is called cheaper whose true cost is `ratio` times the baseline's."""
    baseline, arm, *others = scenario.arms
    value = percentage(replace(scenario, arms=(baseline, replace(arm, ratio=ratio), *others)), is_cheaper)
    target: dict[str, Any] = {"target": f"at least {MIN_DETECTED:g} %", "met": value >= MIN_DETECTED}
    label = f"a gain of {100 * (1 - ratio):.0f} % detected: {name}"
    return Row(name=label, value=value, unit="%", n=COMPARISONS, **(target if has_target else {}))


def false_rows(noise: Noise) -> list[Row]:
    """Return the error rates of comparisons of a setting with itself."""
    plain = scenario(noise)
    slow_start = (Arm(cold_start=True), Arm())
    by_repeats = [(n, replace(plain, repeats=n)) for n in sorted({3, 4, 5, 6, 8, 10, DEFAULT})]
    return [
        *(false_row(f"recorded noise, {n} repeats", each) for n, each in by_repeats),
        false_row("jobs in their recorded order", replace(plain, seconds=in_order(noise.seconds))),
        false_row("normal noise of the same spread", replace(plain, seconds=normal(noise.spread))),
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
            has_target=False,
        ),
        false_row(
            "each job 2 % slower than the last, one side after the other",
            replace(plain, seconds=with_drift(plain.seconds), alternates=False),
            has_target=False,
        ),
        *(_any_cheaper(replace(plain, arms=(Arm(),) * arms), arms) for arms in (2, 4, 8)),
    ]


def _disturbed(noise: Noise) -> list[Row]:
    values = noise.disturbed_seconds
    name = "noise recorded while other programs ran"
    scenarios = [replace(scenario(noise), seconds=resampled(values))] if len(values) else []
    return [false_row(f"{name}, {len(values)} jobs", each, has_target=False) for each in scenarios]


def _any_cheaper(scenario: Scenario, arms: int) -> Row:
    value = percentage(scenario, is_cheaper)
    return Row(name=f"one of {arms} equal settings is called the cheapest", value=value, unit="%", n=COMPARISONS)


def gain_rows(noise: Noise) -> list[Row]:
    """Return how often truly cheaper arms are detected."""
    plain = scenario(noise)
    same_quality, compiled = replace(plain, same_quality_by_seed=True), (Arm(), Arm(cold_start=True))
    return [
        *(
            gain_row(f"recorded noise, {n} repeats", replace(plain, repeats=n), has_target=n == DEFAULT)
            for n in sorted({3, 4, 5, 6, 7, 8, 10, DEFAULT})
        ),
        *(
            gain_row(
                f"an arm of the same quality by seed, {n} repeats",
                replace(same_quality, repeats=n),
                has_target=n == 5,
            )
            for n in (3, 4, 5)
        ),
        gain_row("its first job compiles", replace(plain, arms=compiled)),
        gain_row("whole seconds, jobs of 40 s", replace(plain, whole_seconds=True)),
        gain_row("jobs in their recorded order", replace(plain, seconds=in_order(noise.seconds)), has_target=False),
        gain_row("slow spells", replace(plain, seconds=with_spells(plain.seconds)), has_target=False),
        gain_row(
            "each job 2 % slower than the last",
            replace(plain, seconds=with_drift(plain.seconds)),
            has_target=False,
        ),
        gain_row(
            f"a sweep's {Sweep().repeats} repeats, recorded noise",
            replace(plain, repeats=Sweep().repeats),
            ratio=0.8,
            has_target=False,
        ),
    ]


def scenario(noise: Noise) -> Scenario:
    """Return a comparison of two equal settings, with recorded noise and the default number of repeats."""
    return Scenario(seconds=resampled(noise.seconds), quality=resampled(noise.quality), repeats=DEFAULT)


def grid_row(settings: Sequence[Sequence[float]]) -> Row:
    """Return the number of false verdicts on recorded jobs. Each setting's jobs are dealt alternately to two sides."""
    dealt = [[job(str(at % 2), at // 2, at, s, ACCURACY, "off") for at, s in enumerate(each)] for each in settings]
    false = sum(is_decided(verdict_outcomes(compare(jobs_table(jobs), "recorded"))) for jobs in dealt)
    name = f"false verdicts: real jobs of {len(settings)} settings, each setting's dealt to two sides"
    return Row(name=name, value=false, unit=f"of {len(settings)}", n=len(settings))


def real_row(name: str, rows: Sequence[Repeat]) -> Row:
    """Return the number of false verdicts on recorded jobs of one setting, dealt alternately to two sides."""
    comparisons = [rows[at : at + 2 * SIDE] for at in range(0, len(rows) - 2 * SIDE + 1, 2 * SIDE)]
    false = sum(is_decided(verdict_outcomes(compare(_dealt(each), name))) for each in comparisons)
    return Row(
        name=f"false verdicts: real jobs of {name}, {SIDE} against {SIDE}",
        value=false,
        unit=f"of {len(comparisons)}",
        n=len(comparisons),
    )


def _dealt(rows: Sequence[Repeat]) -> Any:
    jobs = [
        job(str(number % 2), number // 2, number, row.billable_seconds, row.eval_accuracy, row.cache_state)
        for number, row in enumerate(rows)
    ]
    return jobs_table(jobs)


def main() -> None:
    """Simulate all scenarios, and write the figures."""
    noise = recorded_noise()
    if not len(noise.quality):
        sys.exit("error: no repeats are recorded; run `python -m benchmarks.recorded.record_repeats` first")
    tables = {
        name if number == 1 else f"{name}, recording {number}": part.rows
        for name in repeats_table.names()
        if (table := repeats_table.read(name))
        for number, part in table.recordings.items()
    }
    rows = [
        Row(name="spread of equal jobs", value=100 * noise.spread, unit="% of their seconds", n=len(noise.seconds)),
        Row(name="spread of their accuracy", value=float(np.std(noise.quality)), unit="", n=len(noise.quality)),
        *false_rows(noise),
        *gain_rows(noise),
        grid_row(noise.settings),
        *(real_row(name, repeats) for name, repeats in tables.items() if len(repeats) >= 2 * SIDE),
    ]
    write(
        "verdict",
        rows,
        [
            "A false verdict calls a setting cheaper or more expensive than itself. Each figure comes from simulated "
            "comparisons, which the report judges like real ones. Unless stated, each side has "
            f"{DEFAULT} repeats.",
            "Verdicts use 95 % intervals, so at most 5 % of them are expected to be false. With this many comparisons, "
            "the 95 % interval of such a share is ±0.7 points.",
            f"Recorded noise: the deviations of {len(noise.seconds)} jobs of {len(noise.settings)} settings from their "
            "setting's mean, and the deviations of the repeats' accuracy. The jobs are those of one batch size at "
            "equal samples (benchmarks/recorded/grids), and those of one setting with different seeds "
            "(benchmarks/recorded/repeats).",
            "A gain is detected when the verdict is cheaper, which also requires that the quality is kept. Quality "
            "noise is drawn for every job, as between batch sizes. Arms of the same quality by seed share it, as when "
            "only the compiler differs.",
            "Real jobs are dealt alternately to two sides, in the order in which they ran. Each job is in only one "
            f"comparison: of {2 * SIDE} repeats, or of the jobs of one batch size.",
        ],
    )


if __name__ == "__main__":
    main()
