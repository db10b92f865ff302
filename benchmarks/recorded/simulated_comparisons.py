"""Comparisons of jobs that never ran, in the shape in which the tracking server tells of jobs, judged by the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.random import Generator

from benchmarks.recorded.noise import Numbers
from reports.comparison.comparison import Comparison, compare
from tracking.queries.job_tables import NUMBER_COLUMNS, TEXT_COLUMNS

Draw = Callable[[Generator, int], Numbers]
"""Deviations of so many jobs, in the order in which they run."""

ACCURACY = 0.64
"""Of every setting, before its noise."""
_NUMBERS = [*NUMBER_COLUMNS, "eval_accuracy"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A setting."""

    ratio: float = 1.0
    """Its true seconds over the baseline's."""
    spread: float = 1.0
    """Factor on the noise of its jobs."""
    cold_start: bool = False
    """Its first job finds nothing compiled, the others do."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a comparison goes."""

    seconds: Draw
    """Of the logarithm of a job's seconds."""
    quality: Draw
    """Of a job's accuracy."""
    arms: tuple[Arm, ...] = (Arm(), Arm())
    """The baseline first."""
    repeats: int
    trains_alike: bool = False
    """Jobs of one seed reach the same quality in all arms, as they do where only the compiler differs."""
    in_turn: bool = True
    """Repeat by repeat, the arms in turn, as `compare` runs them; else one arm after the other."""
    job_seconds: float = 40.0
    cold_seconds: float = 25.0
    """What compiling adds to a job that found nothing compiled."""
    whole_seconds: bool = False
    """Bills are whole seconds, as at SageMaker."""


def outcomes(course: Course, comparisons: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield what the report says of each arm after the baseline, comparison by comparison."""
    random = np.random.default_rng(seed)
    for _ in range(comparisons):
        yield said(judged(course, random))


def said(comparison: Comparison) -> tuple[str, ...]:
    """Return the verdicts' outcomes."""
    return tuple(contrast.verdict.outcome for contrast in comparison.contrasts)


def judged(course: Course, random: Generator) -> Comparison:
    """Return the report's comparison of jobs drawn once."""
    return compare(table(course, random), "simulated")


def table(course: Course, random: Generator) -> pd.DataFrame:
    """Return the jobs as `tracking.queries.job_tables.jobs` would."""
    turns = [(repeat, at) for repeat in range(course.repeats) for at in range(len(course.arms))]
    if not course.in_turn:
        turns.sort(key=lambda turn: turn[1])
    seconds, quality = course.seconds(random, len(turns)), course.quality(random, len(turns))
    jobs = [
        _job(
            course,
            at,
            repeat,
            number,
            float(seconds[number]),
            float(quality[repeat if course.trains_alike else number]),
        )
        for number, (repeat, at) in enumerate(turns)
    ]
    return table_of(jobs)


def table_of(jobs: list[dict[str, object]]) -> pd.DataFrame:
    """Return a table of jobs with all columns of `tracking.queries.job_tables.jobs`; missing values are None or NaN."""
    text = [[job.get(name) for name in TEXT_COLUMNS] for job in jobs]
    numbers = [[job.get(name, math.nan) for name in _NUMBERS] for job in jobs]
    told = pd.DataFrame(text, columns=TEXT_COLUMNS, dtype=object), pd.DataFrame(numbers, columns=_NUMBERS, dtype=float)
    return pd.concat(told, axis=1)


def job(arm: str, repeat: int, number: int, billable_seconds: float, accuracy: float, cache: str) -> dict[str, object]:
    """Return a successful job that trained 1,500 samples; arm 0 is the baseline."""
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


def _job(course: Course, at: int, repeat: int, number: int, deviation: float, quality: float) -> dict[str, object]:
    arm = course.arms[at]
    is_cold = arm.cold_start and repeat == 0
    seconds = course.job_seconds * arm.ratio * math.exp(arm.spread * deviation)
    seconds += course.cold_seconds if is_cold else 0.0
    bill = float(math.ceil(seconds)) if course.whole_seconds else seconds
    cache = ("cold" if is_cold else "warm") if arm.cold_start else "off"
    return job(str(at), repeat, number, bill, ACCURACY + quality, cache)
