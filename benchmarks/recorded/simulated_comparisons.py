"""Simulated comparisons: jobs in the form that the tracking server returns, with verdicts by the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.random import Generator

from benchmarks.recorded.noise import Numbers
from judging.round_order import round_order
from reports.comparison.comparison import Comparison, compare
from tracking.queries.job_tables import NUMBER_COLUMNS, TEXT_COLUMNS

Draw = Callable[[Generator, int], Numbers]
"""Draws the deviations of a number of jobs, in the order in which they run."""

ACCURACY = 0.64
"""Accuracy of every setting, before noise."""
_NUMBERS = [*NUMBER_COLUMNS, "eval_accuracy"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A simulated setting."""

    ratio: float = 1.0
    """True seconds divided by the baseline's."""
    spread: float = 1.0
    """Factor on the jobs' noise."""
    cold_start: bool = False
    """True if only the first job has to compile."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Properties of the simulated comparisons."""

    seconds: Draw
    """Noise of the logarithm of the jobs' seconds."""
    quality: Draw
    """Noise of the jobs' accuracy."""
    arms: tuple[Arm, ...] = (Arm(), Arm())
    """The arms; the first is the baseline."""
    repeats: int
    same_quality_by_seed: bool = False
    """True if jobs with the same seed reach the same quality in all arms, as when only the compiler differs."""
    alternates: bool = True
    """True if the arms take turns, as in `compare`; False if all jobs of an arm run before those of the next."""
    job_seconds: float = 40.0
    cold_seconds: float = 25.0
    """Seconds that compiling adds to a job with a cold cache."""
    whole_seconds: bool = False
    """True if billable seconds are rounded up to whole seconds, as on SageMaker."""


def outcomes(scenario: Scenario, comparisons: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield, for each comparison, the verdicts' outcomes for the arms after the baseline."""
    random = np.random.default_rng(seed)
    for _ in range(comparisons):
        yield verdict_outcomes(simulate(scenario, random))


def verdict_outcomes(comparison: Comparison) -> tuple[str, ...]:
    """Return the outcome of each verdict of a comparison."""
    return tuple(contrast.verdict.outcome for contrast in comparison.contrasts)


def simulate(scenario: Scenario, random: Generator) -> Comparison:
    """Draw the jobs of one comparison, and return the report's comparison of them."""
    return compare(draw_jobs(scenario, random), "simulated")


def draw_jobs(scenario: Scenario, random: Generator) -> pd.DataFrame:
    """Draw the jobs of one comparison, as a table like that of `tracking.queries.job_tables.jobs`."""
    arms = len(scenario.arms)
    turns = [(repeat, at) for repeat in range(scenario.repeats) for at in round_order(arms, repeat, seed=0)]
    if not scenario.alternates:
        turns.sort(key=lambda turn: turn[1])
    seconds, quality = scenario.seconds(random, len(turns)), scenario.quality(random, len(turns))
    jobs = [
        _job(
            scenario,
            at,
            repeat,
            number,
            float(seconds[number]),
            float(quality[repeat if scenario.same_quality_by_seed else number]),
        )
        for number, (repeat, at) in enumerate(turns)
    ]
    return jobs_table(jobs)


def jobs_table(jobs: list[dict[str, object]]) -> pd.DataFrame:
    """Return the jobs as a table with the columns of `tracking.queries.job_tables.jobs`, None or NaN where missing."""
    text = [[job.get(name) for name in TEXT_COLUMNS] for job in jobs]
    numbers = [[job.get(name, math.nan) for name in _NUMBERS] for job in jobs]
    parts = pd.DataFrame(text, columns=TEXT_COLUMNS, dtype=object), pd.DataFrame(numbers, columns=_NUMBERS, dtype=float)
    return pd.concat(parts, axis=1)


def job(arm: str, repeat: int, number: int, billable_seconds: float, accuracy: float, cache: str) -> dict[str, object]:
    """Return a successful job of 1,500 samples. Arm 0 is the baseline."""
    return {
        "run_id": f"run{number}",
        "status": "FINISHED",
        "arm": arm,
        "baseline": "true" if arm == "0" else "false",
        "repeat": str(repeat),
        "cache_state": cache,
        "service": "local",
        "instance_type": "local",
        "device": "1 x processor",
        "data_key": "data",
        "start_time_ms": float(number),
        "samples": 1500.0,
        "cost_billable_seconds": billable_seconds,
        "cost_billable_instance_seconds": billable_seconds,
        "eval_accuracy": accuracy,
    }


def _job(scenario: Scenario, at: int, repeat: int, number: int, deviation: float, quality: float) -> dict[str, object]:
    arm = scenario.arms[at]
    is_cold = arm.cold_start and repeat == 0
    seconds = scenario.job_seconds * arm.ratio * math.exp(arm.spread * deviation)
    seconds += scenario.cold_seconds if is_cold else 0.0
    billable_seconds = float(math.ceil(seconds)) if scenario.whole_seconds else seconds
    cache = ("cold" if is_cold else "warm") if arm.cold_start else "off"
    return job(str(at), repeat, number, billable_seconds, ACCURACY + quality, cache)
