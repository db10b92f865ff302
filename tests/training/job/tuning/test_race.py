"""The fastest candidate wins, equal ones leave the preferred one, and slow ones are not timed for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, repeat

import numpy as np
import pytest

from tuning.race import MAX_ROUNDS, StepFailed, run_race, winner


def measured_from(*steps: Iterator[float]) -> tuple[Callable[[int], float], list[int]]:
    """Return a measurement that takes the next of each candidate's seconds, and the list of the candidates it took."""
    taken: list[int] = []

    def measure(index: int) -> float:
        taken.append(index)
        return next(steps[index])

    return measure, taken


def always() -> bool:
    return True


def test_a_clearly_faster_candidate_wins_after_two_rounds() -> None:
    """Steps of 1.0 and 0.8 s without noise: after two rounds, the slower one is more than 1.1 times as slow."""
    measure, taken = measured_from(repeat(1.0), repeat(0.8))
    race = run_race(2, measure, always)
    assert race.winner == 1
    # The warm-up, the first round, and the second round in reverse order.
    assert taken == [0, 1, 0, 1, 1, 0]
    assert race.median_seconds() == {0: 1.0, 1: 0.8}


def test_a_candidate_twice_as_slow_is_not_timed_again() -> None:
    measure, taken = measured_from(repeat(0.1), repeat(0.21), repeat(0.19))
    race = run_race(3, measure, always)
    assert taken.count(1) == 1
    assert taken.count(2) == 2
    assert race.winner == 0
    assert race.median_seconds() == pytest.approx({0: 0.1, 1: 0.21, 2: 0.19})


def test_equal_candidates_leave_the_preferred_one() -> None:
    """Both take 1.00 and 1.02 s in turn. The second one is no better in any round, and all rounds are needed."""
    measure, taken = measured_from(cycle([1.0, 1.02]), cycle([1.02, 1.0]))
    race = run_race(2, measure, always)
    assert race.winner == 0
    assert len(taken) == 2 * (1 + MAX_ROUNDS)


def test_a_gain_below_two_percent_does_not_count() -> None:
    assert winner({0: [1.0, 1.0, 1.0], 1: [0.985, 0.985, 0.985]}, [0, 1]) == 0
    assert winner({0: [1.0, 1.0, 1.0], 1: [0.97, 0.97, 0.97]}, [0, 1]) == 1


def test_a_gain_within_the_noise_does_not_count() -> None:
    """Medians of 1.0 and 0.9 s. The standard deviation of 0.8, 1.0, 1.2 is 0.2: an error of 1.25 * 0.2 / 3**0.5."""
    noisy: dict[int, list[float]] = {0: [0.8, 1.0, 1.2], 1: [0.7, 0.9, 1.1]}
    assert winner(noisy, [0, 1]) == 0
    assert winner({0: [0.99, 1.0, 1.01], 1: [0.89, 0.9, 0.91]}, [0, 1]) == 1


def test_the_order_is_reversed_from_round_to_round() -> None:
    """The machine becomes 1 % slower with every step. In a fixed order, the second of two equal ones would lose."""
    measure, taken = measured_from(*([repeat(1.0)] * 2))
    race = run_race(2, lambda index: measure(index) * 1.01 ** len(taken), always)
    # Warm-ups are steps 1 and 2. The candidates then take turns at being the first of a round.
    assert race.seconds[0][:3] == pytest.approx([1.01**3, 1.01**6, 1.01**7])
    assert race.seconds[1][:3] == pytest.approx([1.01**4, 1.01**5, 1.01**8])
    assert race.winner == 0


@pytest.mark.parametrize(("steps", "complete"), [(1, False), (2, False), (3, False), (4, True), (5, True)])
def test_without_time_for_every_candidate_the_preferred_one_wins(steps: int, complete: bool) -> None:
    """Two candidates need two steps of warm-up and two timed steps. The second one is 1.4 times as fast."""
    measure, taken = measured_from(repeat(1.0), repeat(0.7))
    race = run_race(2, measure, lambda: len(taken) < steps)
    assert race.is_complete is complete
    assert race.winner == (1 if complete else 0)
    assert len(taken) == steps


@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 1.05), (1.05, 1.0), (1.0, 1.3, 0.9, 2.5), (1.0, 0.97, 0.94)])
def test_the_choice_costs_at_most_five_percent(costs: Sequence[float]) -> None:
    """Steps vary by 4 %, as on a quiet machine. Of 200 races, at least 190 choose within 5 % of the fastest."""
    random = np.random.default_rng(7)
    chosen = [
        costs[run_race(len(costs), lambda at: costs[at] * random.lognormal(0, 0.04), always).winner] for _ in range(200)
    ]
    assert sum(cost <= 1.05 * min(costs) for cost in chosen) >= 190


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_candidate_that_fails_leaves_the_race(steps_before: int) -> None:
    """It would be far the fastest, and fails in the warm-up or in the next step. The others were not timed then."""
    measure, _ = measured_from(repeat(1.0), repeat(0.1, steps_before), repeat(0.8))

    def or_fail(index: int) -> float:
        try:
            return measure(index)
        except StopIteration:
            raise StepFailed(index) from None

    race = run_race(3, or_fail, always)
    assert race.winner == 2
    assert race.is_complete
    assert race.median_seconds() == {0: 1.0, 2: 0.8}
