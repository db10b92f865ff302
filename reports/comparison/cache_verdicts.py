"""Verdicts of an arm for each state of the compile cache, and for a number of trainings to come."""

from __future__ import annotations

from dataclasses import dataclass

from judging.cost_ratio import MOST_TRAININGS
from judging.intervals import Interval
from judging.sequential import Look
from reports.model.numbers import change, change_interval
from reports.model.wording import counted


@dataclass(frozen=True)
class CacheVerdicts:
    """Cost ratios of an arm, if some jobs started with a cold compile cache and others did not."""

    trainings: int
    """Trainings to come that the verdict is for; the first starts with a cold cache."""
    cold: Interval | None
    """Ratio for one training with a cold cache; None with too few jobs."""
    warm: Interval | None
    """Ratio for trainings with a warm cache; None with too few jobs."""
    cheaper_from: int | None
    """Fewest trainings for which the arm is shown to cost less; None if there is no such number."""


def cache_verdicts(look: Look, trainings: int) -> CacheVerdicts | None:
    """Return the verdicts by cache state; None if all jobs started with the same state."""
    if look.cold is None and look.warm is None:
        return None
    return CacheVerdicts(trainings, look.cold, look.warm, look.cheaper_from)


def trainings_phrase(verdicts: CacheVerdicts | None) -> str:
    """Return the trainings that a cost ratio is for, such as ` for 2 trainings, the first with a cold cache`."""
    if verdicts is None:
        return ""
    if verdicts.trainings == 1:
        return " for one training with a cold compile cache"
    return f" for {counted(verdicts.trainings, 'training')}, the first with a cold compile cache"


def state_sentences(verdicts: CacheVerdicts) -> list[str]:
    """Return the verdict on the cost for each cache state, and the trainings from which the arm is cheaper."""
    sentences = [
        f"With a {state} compile cache: {_outcome(ratio)}."
        for state, ratio in (("cold", verdicts.cold), ("warm", verdicts.warm))
        if state == "warm" or verdicts.trainings > 1
    ]
    return [*sentences, _cheaper_from(verdicts)]


def _outcome(ratio: Interval | None) -> str:
    if ratio is None:
        return "too few jobs for a verdict"
    outcome = "cheaper" if ratio.high < 1 else "not cheaper" if ratio.low > 1 else "inconclusive"
    return f"{outcome}, {change(ratio.estimate)} ({change_interval(ratio)})"


def _cheaper_from(verdicts: CacheVerdicts) -> str:
    trainings = verdicts.cheaper_from
    if trainings is None:
        return f"No number of trainings up to {MOST_TRAININGS:,} is shown to make it cheaper."
    if trainings == 1:
        return "It is cheaper from the first training on."
    return f"It is cheaper from {trainings} trainings on, if only the first starts with a cold cache."
