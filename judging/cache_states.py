"""Compile caches: jobs that started with a cold cache, and jobs that started with a warm one.

A cache makes the first training of a setting dearer than all later ones. A verdict is given for the later ones, from
the jobs with a warm cache. There is often only one cold job, and one job says nothing about how much cold jobs differ.
So what a cold cache adds is an estimate, without an interval and without a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from judging.result import CacheState, Result, costs
from judging.summaries import geometric_mean


@dataclass(frozen=True)
class Costs:
    """Costs of an arm's successful jobs, by the state of the compile cache at their start."""

    cold: tuple[float, ...]
    later: tuple[float, ...]
    """Jobs with a warm cache, or without a cache."""

    @property
    def is_mixed(self) -> bool:
        """True if some jobs started with a cold cache and others did not."""
        return bool(self.cold and self.later)

    @property
    def judged(self) -> tuple[float, ...]:
        """Costs that a verdict uses: of the later jobs, or of the cold ones if there are no others."""
        return self.later or self.cold


@dataclass(frozen=True, kw_only=True)
class ColdStart:
    """Estimated cost of trainings of which the first starts with a cold cache: no interval, and no verdict."""

    ratio: float
    """Cost of the first training, arm over baseline."""
    trainings: int
    """Number of trainings to come that `total` is for."""
    total: float
    """Cost of these trainings, arm over baseline."""
    jobs: int
    """Number of the arm's cold jobs, or of the baseline's if the arm has none."""
    cheaper_from: int | None
    """Fewest trainings of which the arm's cost less in all; None if no number does."""


def costs_by_state(arm: Sequence[Result], baseline: Sequence[Result]) -> tuple[Costs, Costs]:
    """Return the costs that can be compared.

    If both arms use a cache, the jobs of a state that only one of them has are left out: its cost is not known for the
    other. Jobs that found only a part of their programs in the cache are left out if their arm has any others.
    """
    mine, others = _without_partial(arm), _without_partial(baseline)
    states = [{result.cache for result in side} - {"off"} for side in (mine, others)]
    kept: set[CacheState] = {"off", *(states[0] & states[1] if all(states) else states[0] | states[1])}
    return _by_state(mine, kept), _by_state(others, kept)


def cold_start(arm: Costs, baseline: Costs, trainings: int = 1) -> ColdStart | None:
    """Return the cost of trainings of which the first is cold: (C + (N - 1) W), arm over baseline.

    C and W are the geometric means of the cold and of the later jobs. None if neither side has jobs of both states.
    """
    if not (arm.is_mixed or baseline.is_mixed):
        return None
    (first, later), (first_baseline, later_baseline) = (
        [geometric_mean(jobs or side.judged) for jobs in (side.cold, side.later)] for side in (arm, baseline)
    )
    extra, gain = first - later - (first_baseline - later_baseline), later_baseline - later
    # The arm's N trainings cost less if extra < N gain.
    cheaper_from = 1 if first < first_baseline else math.floor(extra / gain) + 1 if gain > 0 else None
    return ColdStart(
        ratio=first / first_baseline,
        trainings=trainings,
        total=(first + (trainings - 1) * later) / (first_baseline + (trainings - 1) * later_baseline),
        jobs=len(arm.cold if arm.is_mixed else baseline.cold),
        cheaper_from=cheaper_from,
    )


def _without_partial(results: Sequence[Result]) -> list[Result]:
    succeeded = [result for result in results if result.succeeded and result.cost is not None]
    return [result for result in succeeded if result.cache != "partial"] or succeeded


def _by_state(results: Sequence[Result], kept: Set[CacheState]) -> Costs:
    cold, later = (
        tuple(costs([each for each in results if each.cache in kept and (each.cache == "cold") is is_cold]))
        for is_cold in (True, False)
    )
    return Costs(cold, later)
