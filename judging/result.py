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
    """Number of the repeat. Jobs of two arms with the same number have the same seed, if their seeds are not known."""
    cache: CacheState = "off"
    seed: int | None = None
    """Seed of the training. Jobs of an arm with the same seed trained the same model, so one score of them counts."""
    diverged: bool = False
    """True for a failed job whose loss was not finite. It counts as a job without a finite score, too."""
    commonest: float = math.nan
    """Score of always answering the commonest class; NaN if it is not known."""


def costs(results: Sequence[Result]) -> list[float]:
    """Return the costs of the jobs that succeeded."""
    return [result.cost for result in results if result.succeeded and result.cost is not None]


def scores(results: Sequence[Result]) -> list[float]:
    """Return the finite scores of the jobs that succeeded: one for each seed, the first."""
    return [*_scores_by_seed(results).values()]


def _scores_by_seed(results: Sequence[Result]) -> dict[tuple[str, int], float]:
    by_seed: dict[tuple[str, int], float] = {}
    for at, each in enumerate(results):
        if each.succeeded and math.isfinite(each.score):
            repeat = ("job", at) if each.repeat is None else ("repeat", each.repeat)
            by_seed.setdefault(repeat if each.seed is None else ("seed", each.seed), each.score)
    return by_seed


def unscored(results: Sequence[Result]) -> int:
    """Return the number of jobs without a finite score that succeeded or diverged."""
    return sum(result.diverged or (result.succeeded and not math.isfinite(result.score)) for result in results)


def paired_scores(arm: Sequence[Result], baseline: Sequence[Result]) -> tuple[list[float], list[float]]:
    """Return the scores of the seeds that both arms have, in the same order. Repeats stand for unknown seeds."""
    mine, others = _scores_by_seed(arm), _scores_by_seed(baseline)
    common = sorted(key for key in mine.keys() & others.keys() if key[0] != "job")
    return [mine[key] for key in common], [others[key] for key in common]
