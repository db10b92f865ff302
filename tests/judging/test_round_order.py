"""Test the order of a comparison's jobs."""

import pytest

from judging.waves import round_order


def test_two_arms_reverse_every_round_and_every_pair_of_rounds() -> None:
    ab, ba = (0, 1), (1, 0)
    assert [round_order(2, number, seed=7) for number in range(4)] == [ab, ba, ba, ab]
    later = {tuple(round_order(2, number, seed) for number in range(4, 8)) for seed in range(20)}
    assert later == {(ab, ba, ba, ab), (ba, ab, ab, ba)}


@pytest.mark.parametrize("arms", [1, 2, 3, 8])
def test_a_steady_drift_costs_every_arm_the_same_in_a_pair_of_rounds(arms: int) -> None:
    for pair in range(5):
        jobs = [*round_order(arms, 2 * pair, seed=7), *round_order(arms, 2 * pair + 1, seed=7)]
        # The n-th job is n units slower than the first.
        costs = [sum(at for at, arm in enumerate(jobs) if arm == each) for each in range(arms)]
        assert len(set(costs)) == 1


def test_many_arms_start_in_their_own_order_and_then_change_neighbours() -> None:
    rounds = [round_order(8, number, seed=7) for number in range(0, 20, 2)]
    assert rounds[0] == tuple(range(8))
    assert len(set(rounds)) == len(rounds)
    assert all(sorted(each) == list(range(8)) for each in rounds)


def test_the_order_depends_on_the_seed_alone() -> None:
    assert round_order(8, 4, seed=7) == round_order(8, 4, seed=7) != round_order(8, 4, seed=8)
