"""Test that verdicts follow the appendix of docs/judging.md, with code written from the appendix alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.recorded import appendix
from benchmarks.recorded.situations import Situation, draw
from judging.cost_ratio import cost_ratio
from judging.design import Design
from judging.result import CacheState, Result
from judging.sequential import look
from judging.waves import round_order
from tracking.recorded.recorded_job import EVALUATIONS

LOOKS = (3, 5, 7, 9)


def case(random: np.random.Generator) -> Situation:
    """Return a situation with a random mixture of caches, stragglers, failures, scores and spreads."""

    def either(*values: float) -> float:
        return float(random.choice(values))

    return Situation(
        ratio=either(0.8, 0.9, 0.95, 1.0, 1.1),
        spread=either(0.0, 0.01, 0.04, 0.1),
        cold_spread=either(0.0, 0.1) if random.random() < 0.3 else None,
        slow=(either(0.0, 0.2), 2.0),
        failing=either(0.0, 0.0, 0.15, 0.4),
        diverging=(either(0.0, 0.1), 0.3),
        lost=either(0.0, 0.02, 0.05),
        scores=either(0.0, 0.005, 0.02) if random.random() < 0.7 else None,
        paired=bool(random.random() < 0.5),
    )


def results(side: appendix.Side, commonest: float) -> list[Result]:
    states: list[CacheState] = ["cold" if cold else "warm" if side.cold.any() else "off" for cold in side.cold]
    return [
        Result(float(paid), float(score), bool(succeeded), repeat, cache=cache, commonest=commonest)
        for repeat, (paid, score, succeeded, cache) in enumerate(
            zip(side.paid, side.scores, side.succeeded, states, strict=True)
        )
    ]


def draws() -> list[tuple[int, Situation, float, float, appendix.Side, appendix.Side]]:
    random = np.random.default_rng(20261128)
    drawn = []
    for number in range(200):
        each = case(random)
        resolution, commonest = float(random.choice([0.0, 1.0])), float(random.choice([np.nan, 0.5, 0.895]))
        sides = [
            replace(side, paid=100 * side.paid if resolution == 0 else np.ceil(100 * side.paid))
            for side in draw(each, random)
        ]
        if each.scores is not None and random.random() < 0.1:
            sides[0].scores[int(random.integers(9))] = np.nan
        drawn.append((number % 4, each, resolution, commonest, *(side.first(LOOKS[number % 4]) for side in sides)))
    return drawn


def test_two_hundred_random_looks_end_as_the_appendix_says() -> None:
    design, seen = Design(), set()
    for number, each, resolution, commonest, arm, baseline in draws():
        mine, others = results(arm, commonest), results(baseline, commonest)
        measure = None if each.scores is None else EVALUATIONS["eval_accuracy"]
        options = {"measure": measure, "is_paired": each.paired, "resolution": resolution}
        ours = look(mine, others, design, number, **options)  # type: ignore[arg-type]
        theirs = appendix.look(arm, baseline, number, paired=each.paired, resolution=resolution, commonest=commonest)
        assert (ours.stops if ours else "too few jobs succeeded") == theirs, (number, each, arm, baseline)
        seen.add(theirs)
        cost = appendix.cost(arm, baseline, appendix.levels(LOOKS, 0.05)[number], resolution)
        product = cost_ratio(mine, others, level=design.levels()[number], resolution=resolution)
        if cost and product:
            shown = (product.ratio.estimate, product.ratio.low, product.ratio.high, product.least_ratio, product.bills)
            assert shown == pytest.approx((cost.ratio, cost.low, cost.high, cost.least, cost.bills), rel=2e-4)
    assert len(seen - {None}) >= 7


@pytest.mark.parametrize("looks", [(3, 5, 7, 9), (3, 5, 7, 9, 16), (5,)])
@pytest.mark.parametrize("comparisons", [1, 3])
def test_the_levels_are_the_appendixs(looks: tuple[int, ...], comparisons: int) -> None:
    own = Design(looks=looks).levels(comparisons)
    assert own == pytest.approx(appendix.levels(looks, 0.05 / comparisons), rel=2e-3)


def test_two_arms_run_in_the_appendixs_order() -> None:
    for seed in range(20):
        fours = [round_order(2, 4 * four, seed) == (1, 0) for four in range(1, 4)]
        for number in range(16):
            is_second_first = bool(number % 2) != appendix.is_reversed(number // 2, fours)
            assert round_order(2, number, seed) == ((1, 0) if is_second_first else (0, 1))
