"""Test the waves of a comparison: which jobs run next, and what stops an arm."""

from __future__ import annotations

import pytest

from judging.design import Design
from judging.result import Result
from judging.waves import Job, Results, progress, round_order

DESIGN = Design()
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.001, 0.999)


def results_of(seconds: dict[str, float | None], repeats: int) -> dict[Job, Result | None]:
    """Return the results of the first repeats; an arm with None has failed."""
    return {
        (arm, repeat): Result(30.0, succeeded=False) if mean is None else Result(mean * NOISE[repeat])
        for arm, mean in seconds.items()
        for repeat in range(repeats)
    }


def test_the_first_wave_is_three_rounds_in_alternating_order() -> None:
    state = progress(DESIGN, ["a", "b"], {})
    assert state.due == (("a", 0), ("b", 0), ("b", 1), ("a", 1), ("b", 2), ("a", 2))
    assert (state.looks, state.stopped) == ((), {})


def test_a_failing_arm_starts_no_further_jobs() -> None:
    results = results_of({"a": 100}, 3) | results_of({"b": None}, 1)
    state = progress(DESIGN, ["a", "b"], results, failing={"b"})
    assert (state.due, dict(state.stopped)) == ((), {"b": "all jobs fail"})
    assert state.begun == {("a", 0), ("a", 1), ("a", 2), ("b", 0)}
    # A job of it that runs already is followed to its end.
    assert progress(DESIGN, ["a", "b"], results, failing={"b"}, started={("b", 2)}).due == (("b", 2),)


def test_a_comparison_of_which_every_arm_fails_ends() -> None:
    results = results_of({"a": None, "b": None}, 1)
    state = progress(DESIGN, ["a", "b"], results, failing={"a", "b"})
    assert (state.due, len(state.begun)) == ((), 2)
    # Without the baseline no arm can be compared: the others run their first wave only.
    alone = progress(DESIGN, ["a", "b"], results_of({"a": None}, 1), failing={"a"})
    assert alone.due == (("b", 0), ("b", 1), ("b", 2))
    over = progress(DESIGN, ["a", "b"], results_of({"a": None}, 1) | results_of({"b": 1}, 3), failing={"a"})
    assert over.due == ()


def test_only_the_jobs_of_a_wave_that_have_not_ended_are_due() -> None:
    results = results_of({"a": 100}, 3) | results_of({"b": 90}, 2)
    assert progress(DESIGN, ["a", "b"], results).due == (("b", 2),)


def test_an_arm_with_one_warm_job_continues() -> None:
    results = results_of({"a": 100}, 3) | {
        ("b", 0): Result(150.0, cache="cold"),
        ("b", 1): Result(30.0, succeeded=False),
        ("b", 2): Result(80.0, cache="warm"),
    }
    state = progress(DESIGN, ["a", "b"], results)
    assert (dict(state.looks[0]), dict(state.stopped)) == ({}, {})
    assert set(state.due) == {("a", 3), ("a", 4), ("b", 3), ("b", 4)}
    assert progress(Design(looks=(3,)), ["a", "b"], results).stopped == {"b": "too few jobs succeeded"}
    results[("b", 2)] = Result(30.0, succeeded=False)
    assert progress(DESIGN, ["a", "b"], results).stopped == {"b": "too few jobs succeeded"}


def test_an_arm_that_stopped_gets_no_more_jobs() -> None:
    results = results_of({"a": 100, "b": 80}, 3) | {
        ("c", 0): Result(80.0),
        ("c", 1): Result(100.0),
        ("c", 2): Result(95.0),
    }
    state = progress(DESIGN, ["a", "b", "c"], results)
    assert state.stopped == {"b": "cheaper"}
    assert set(state.due) == {("a", 3), ("a", 4), ("c", 3), ("c", 4)}


def test_later_repeats_do_not_change_an_earlier_look() -> None:
    results: Results = results_of({"a": 100, "b": 80}, 3)
    more = {**results, ("b", 3): Result(500.0), ("b", 4): Result(500.0)}
    assert progress(DESIGN, ["a", "b"], more) == progress(DESIGN, ["a", "b"], results)


def test_an_arm_whose_jobs_fail_stops() -> None:
    state = progress(DESIGN, ["a", "b"], results_of({"a": 100, "b": None}, 3))
    assert state.stopped == {"b": "too few jobs succeeded"}
    assert state.due == ()
    assert state.looks == ({},)


def test_a_baseline_whose_jobs_fail_stops_every_arm() -> None:
    state = progress(DESIGN, ["a", "b", "c"], results_of({"a": None, "b": 80, "c": 90}, 3))
    assert set(state.stopped.values()) == {"too few jobs succeeded"}


def test_an_undecided_comparison_ends_with_the_last_look() -> None:
    noisy = [0.7, 1.0, 1.4] * 3
    results = {(arm, at): Result(mean * noisy[at]) for arm, mean in {"a": 100.0, "b": 90.0}.items() for at in range(9)}
    state = progress(DESIGN, ["a", "b"], results)
    assert state.stopped == {"b": "last look"}
    assert len(state.looks) == 4
    assert state.due == ()


def test_a_single_arm_runs_the_first_wave() -> None:
    assert len(progress(DESIGN, ["a"], {}).due) == 3
    assert progress(DESIGN, ["a"], results_of({"a": 100}, 3)).due == ()


def test_one_look_runs_every_repeat() -> None:
    every = Design(looks=(9,))
    assert len(progress(every, ["a", "b"], results_of({"a": 100, "b": 80}, 3)).due) == 12
    state = progress(every, ["a", "b"], results_of({"a": 100, "b": 80}, 9))
    assert state.stopped == {"b": "cheaper"}


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
