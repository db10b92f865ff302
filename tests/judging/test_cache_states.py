"""Test costs by the state of the compile cache."""

from __future__ import annotations

import pytest

from judging.cache_states import ColdStart, Costs, cold_start, costs_by_state
from judging.result import CacheState, Result


def results(cache: CacheState, *costs: float) -> list[Result]:
    return [Result(cost, cache=cache) for cost in costs]


def costs(sides: tuple[Costs, Costs]) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    return [(side.cold, side.later) for side in sides]


OFF = results("off", 100, 101)
MIXED = [*results("cold", 150), *results("warm", 80, 82)]


def test_costs_are_split_by_state() -> None:
    mine, others = costs_by_state(MIXED, OFF)
    assert costs((mine, others)) == [((150,), (80, 82)), ((), (100, 101))]
    assert (mine.is_mixed, mine.judged) == (True, (80, 82))
    assert (others.is_mixed, others.judged) == (False, (100, 101))
    assert costs_by_state(results("cold", 150, 151), OFF)[0].judged == (150, 151)


def test_a_state_that_only_one_of_two_caching_arms_has_is_left_out() -> None:
    assert costs(costs_by_state(MIXED, results("warm", 90, 91))) == [((), (80, 82)), ((), (90, 91))]
    assert costs(costs_by_state(MIXED, results("cold", 160))) == [((150,), ()), ((160,), ())]
    assert costs(costs_by_state(results("cold", 150), results("warm", 90))) == [((), ()), ((), ())]


def test_a_partly_filled_cache_counts_only_if_there_is_no_other_state() -> None:
    partial = results("partial", 120, 121)
    assert costs_by_state([*partial, *results("warm", 80)], OFF)[0].later == (80,)
    assert costs_by_state(partial, OFF)[0].later == (120, 121)


def test_failed_jobs_and_jobs_without_a_bill_have_no_state() -> None:
    uncounted = [Result(70, succeeded=False, cache="cold"), Result(None, cache="cold")]
    assert costs(costs_by_state([*uncounted, *results("warm", 80)], OFF))[0] == ((), (80,))


BASELINE = Costs((), (100, 100))


@pytest.mark.parametrize(("trainings", "total"), [(1, 155 / 100), (2, (155 + 90) / 200), (6, (155 + 5 * 90) / 600)])
def test_the_first_training_is_cold_and_later_ones_are_warm(trainings: int, total: float) -> None:
    # The geometric mean of the warm jobs is 90. The extra 65 s are earned back with the 7th training.
    cold = cold_start(Costs((155,), (81, 100)), BASELINE, trainings)
    assert cold == ColdStart(
        ratio=pytest.approx(1.55), trainings=trainings, total=pytest.approx(total), jobs=1, cheaper_from=7
    )


def test_an_arm_without_a_cache_has_no_cold_start() -> None:
    assert cold_start(BASELINE, BASELINE) is None
    assert cold_start(Costs((150,), ()), BASELINE) is None


@pytest.mark.parametrize(
    ("arm", "baseline", "first"),
    [
        (Costs((90,), (80, 80)), BASELINE, 1),
        (Costs((150,), (100, 100)), BASELINE, None),  # it never earns anything back
        (Costs((150,), (80, 80)), Costs((140,), (100, 100)), 2),
        (BASELINE, Costs((150,), (101, 101)), 1),
    ],
)
def test_the_trainings_from_which_an_arm_costs_less(arm: Costs, baseline: Costs, first: int | None) -> None:
    cold = cold_start(arm, baseline)
    assert cold is not None
    assert cold.cheaper_from == first
