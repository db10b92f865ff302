"""Situations in which the assumptions of verdicts do not hold, drawn for `appendix`.

The arm's true mean bill for each usable model is the baseline's, or lower by a tenth where the power is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.recorded.appendix import LOOKS, Ending, Numbers, Side, ending, is_reversed, side

SPREAD = 0.037
"""Spread of recorded jobs."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Two settings, and what is unusual about the arm or the machine."""

    ratio: float = 1.0
    """Cost of an ordinary successful job, arm over baseline."""
    spread: float = SPREAD
    arm_spread: float | None = None
    cold_spread: float | None = None
    """Spread of the arm's first job, which starts with a cold cache; None without a cache."""
    slow: tuple[float, float] = (0.0, 1.0)
    """Share of the arm's jobs that take longer, and how many times as long."""
    failing: float = 0.0
    """Share of the arm's jobs that fail."""
    failed_cost: float | None = None
    """Cost of a failed job, relative to a successful one; None draws it between 0 and 1."""
    diverging: tuple[float, float] = (0.0, 0.0)
    """Share of the arm's seeds that diverge, and the accuracy that they lose."""
    lost: float = 0.0
    """Accuracy that each of the arm's seeds loses."""
    scores: float | None = None
    """Spread of the accuracy between seeds; None judges the cost alone."""
    paired: bool = False
    copies: int = 1
    """Groups of the same seeds that a report pools."""
    load: tuple[int, float] = (0, 0.0)
    """Period in jobs of a load that is on for half of it, and how much slower a job is under it."""
    looks: tuple[int, ...] = LOOKS


def draw(each: Situation, random: Generator) -> tuple[Side, Side]:
    """Return the jobs of the arm and of the baseline, as many as the last look needs."""
    repeats = each.looks[-1]
    noise = random.standard_normal((2, repeats))
    logs = noise * np.array([[each.arm_spread or each.spread], [each.spread]])
    if each.cold_spread is not None:
        logs[0, 0] = each.cold_spread * noise[0, 0]
    logs += np.log1p(_load(each, random, repeats))
    paid = np.exp(logs)
    paid[0] *= each.ratio * np.where(random.random(repeats) < each.slow[0], each.slow[1], 1.0)
    succeeded = random.random(repeats) >= each.failing
    part = random.random(repeats) if each.failed_cost is None else each.failed_cost
    paid[0] *= np.where(succeeded, 1.0, part)
    arm, baseline = _scores(each, random, repeats)
    cold = np.arange(repeats) == 0 if each.cold_spread is not None else np.zeros(repeats, bool)
    return side(paid[0], succeeded, cold, arm), side(paid[1], scores=baseline)


def _load(each: Situation, random: Generator, repeats: int) -> Numbers:
    """Return how much slower the jobs of the arm and of the baseline are, by their places in the order of the jobs."""
    period, slower = each.load
    if not period:
        return np.zeros((2, repeats))
    begin, draws = random.integers(period), [bool(each) for each in random.random(repeats) < 0.5]
    loads = np.zeros((2, repeats))
    for number in range(repeats):
        arm_is_first = bool(number % 2) != is_reversed(number // 2, draws)
        for row, place in ((0, 0 if arm_is_first else 1), (1, 1 if arm_is_first else 0)):
            loads[row, number] = slower * ((2 * number + place + begin) % period < period / 2)
    return loads


def _scores(each: Situation, random: Generator, repeats: int) -> tuple[Numbers | None, Numbers | None]:
    if each.scores is None:
        return None, None
    baseline = 0.9 + each.scores * random.standard_normal(repeats)
    arm = baseline if each.paired else 0.9 + each.scores * random.standard_normal(repeats)
    share, lost = each.diverging
    return arm - each.lost - lost * (random.random(repeats) < share), baseline


def endings(each: Situation, comparisons: int, seed: int, judge: Callable[..., Ending] = ending) -> list[Ending]:
    """Return how this many comparisons end."""
    random = np.random.default_rng(seed)
    return [judge(*draw(each, random), each.looks, paired=each.paired) for _ in range(comparisons)]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A situation with what is wrong in it, and the most of it that is allowed."""

    situation: Situation
    wrong: tuple[str, ...] = ("cheaper",)
    most: float | None = 5.0
    """Target, percent; None where no number of repeats in use can reach one."""
    better: Mapping[str, Any] = field(default_factory=lambda: {"ratio": 0.9})
    """Changes with which the arm is truly better by a tenth."""


DIFFERENT = ("cheaper", "dearer")
SIXTEEN = (*LOOKS, 16)
_SEEDS = Situation(ratio=0.9, scores=0.01)
_KEPT = {"diverging": (0.0, 0.0)}


def _slow(share: float, factor: float) -> Case:
    mean = 1 + share * (factor - 1)
    equal = Situation(ratio=1 / mean, slow=(share, factor))
    return Case(situation=equal, most=None, better={"ratio": 0.9 / mean})


CASES: Mapping[str, Case] = {
    **{
        f"equal settings, one cold job; cold jobs spread by {100 * cold:g} %, warm ones by {100 * warm:g} %": Case(
            situation=Situation(spread=warm, cold_spread=cold), wrong=DIFFERENT
        )
        for cold, warm in ((0.037, 0.037), (0.1, 0.037), (0.05, 0.01), (0.1, 0.01))
    },
    **{
        f"{100 * share:g} % of the arm's seeds lose {lost:g} of accuracy; {looks[-1]} repeats": Case(
            situation=replace(_SEEDS, diverging=(share, lost), looks=looks), most=most, better=_KEPT
        )
        for share, lost, looks, most in (
            (0.1, 0.3, LOOKS, 40.0),
            (0.2, 0.3, LOOKS, 15.0),
            (0.1, 0.3, SIXTEEN, 20.0),
            (0.2, 0.3, SIXTEEN, 5.0),
            (0.06, 0.5, LOOKS, None),
            (0.12, 0.5, LOOKS, None),
        )
    },
    "equal mean bills, 10 % of the arm's jobs take twice as long": _slow(0.1, 2.0),
    "equal mean bills, 20 % of the arm's jobs take 1.5 times as long": _slow(0.2, 1.5),
    "30 % of the arm's jobs fail at half their cost, the rest cost 10 % less (truly 9 % dearer)": Case(
        situation=Situation(ratio=0.9, failing=0.3, failed_cost=0.5),
        most=None,
        better={"ratio": 0.9 / (1 + 0.15 / 0.7)},
    ),
    "30 % of the arm's jobs fail at their end, the rest cost 20 % less (truly 14 % dearer)": Case(
        situation=Situation(ratio=0.8, failing=0.3, failed_cost=1.0), most=None, better={"ratio": 0.9 * 0.7}
    ),
    "50 % of the arm's jobs fail on their way, the rest cost 30 % less (truly 5 % dearer)": Case(
        situation=Situation(ratio=0.7, failing=0.5), most=None, better={"ratio": 0.6}
    ),
    **{
        f"equal settings, a load with a period of {period} jobs makes them {100 * slower:g} % slower": Case(
            situation=Situation(spread=0.02, load=(period, slower)), wrong=DIFFERENT
        )
        for period in (3, 4, 8)
        for slower in (0.03, 0.1)
    },
    "equal settings, the arm spreads 10 times as much": Case(
        situation=Situation(spread=0.005, arm_spread=0.05), wrong=DIFFERENT
    ),
    "equal settings, the arm spreads 20 times as much": Case(
        situation=Situation(spread=0.005, arm_spread=0.1), wrong=DIFFERENT
    ),
    "an arm that learns in another way costs 10 % less and is worse by the margin": Case(
        situation=replace(_SEEDS, lost=0.03), better={"lost": 0.0}
    ),
}
