"""Results of jobs, as verdicts use them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

CacheState = Literal["off", "cold", "warm", "partial"]
"""State of the compile cache when a job starts: no cache, or one with none, all or some of the job's programs."""
CACHE_STATES: tuple[CacheState, ...] = get_args(CacheState)


@dataclass(frozen=True)
class Result:
    """Cost of one job, and quality of its model."""

    cost: float | None
    """Positive, in the same unit for all jobs of a comparison. Of a failed job, what was paid for it; may be 0. None if
    it was not recorded."""
    score: float = math.nan
    """Quality metric of the model; NaN if it was not measured."""
    succeeded: bool = True
    repeat: int | None = None
    """Number of the repeat. Jobs of two arms with the same number have the same seed."""
    cache: CacheState = "off"
    seed: int | None = None
    """Seed of the training. Jobs of an arm with the same seed trained the same model, so one score of them counts."""
    diverged: bool = False
    """True for a failed job whose loss was not finite. It counts as a job without a finite score, too."""
    commonest: float = math.nan
    """Score of a model that always answers the commonest class; NaN if there is none or it is not known."""


def costs(results: Sequence[Result]) -> list[float]:
    """Return the costs of the jobs that succeeded."""
    return [result.cost for result in results if result.succeeded and result.cost is not None]


def scores(results: Sequence[Result]) -> list[float]:
    """Return the finite scores of the jobs that succeeded: one for each seed, the first."""
    by_seed: dict[object, float] = {}
    for at, result in enumerate(results):
        if result.succeeded and math.isfinite(result.score):
            by_seed.setdefault(("job", at) if result.seed is None else result.seed, result.score)
    return [*by_seed.values()]


def unscored(results: Sequence[Result]) -> int:
    """Return the number of jobs without a finite score that succeeded or diverged."""
    return sum(result.diverged or (result.succeeded and not math.isfinite(result.score)) for result in results)


def paired_scores(arm: Sequence[Result], baseline: Sequence[Result]) -> tuple[list[float], list[float]]:
    """Return the finite scores of the repeats that succeeded in both arms, in the same order."""
    mine, others = (
        {each.repeat: each.score for each in side if each.succeeded and math.isfinite(each.score)}
        for side in (arm, baseline)
    )
    common = sorted(repeat for repeat in mine.keys() & others.keys() if repeat is not None)
    return [mine[repeat] for repeat in common], [others[repeat] for repeat in common]
