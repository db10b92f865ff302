"""Test the waves of a comparison: which jobs run next, and what stops an arm."""

from __future__ import annotations

from judging.sequential import Design
from judging.waves import Costs, Job, progress

DESIGN = Design()
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.001, 0.999)


def costs_of(seconds: dict[str, float | None], repeats: int) -> dict[Job, float | None]:
    """Return the costs of the first repeats; an arm with None has failed."""
    return {
        (arm, repeat): None if mean is None else mean * NOISE[repeat]
        for arm, mean in seconds.items()
        for repeat in range(repeats)
    }


def test_the_first_wave_is_three_rounds_in_alternating_order() -> None:
    state = progress(DESIGN, ["a", "b"], {})
    assert state.due == (("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2))
    assert (state.looks, state.stopped) == ((), {})


def test_only_the_jobs_of_a_wave_that_have_not_ended_are_due() -> None:
    costs = costs_of({"a": 100}, 3) | costs_of({"b": 90}, 2)
    assert progress(DESIGN, ["a", "b"], costs).due == (("b", 2),)


def test_a_clear_comparison_is_complete_after_one_look() -> None:
    state = progress(DESIGN, ["a", "b"], costs_of({"a": 100, "b": 80}, 3))
    assert state.due == ()
    assert state.stopped == {"b": "cheaper"}
    assert len(state.looks) == 1


def test_an_arm_that_stopped_gets_no_more_jobs() -> None:
    costs = costs_of({"a": 100, "b": 80}, 3) | {("c", 0): 80.0, ("c", 1): 100.0, ("c", 2): 95.0}
    state = progress(DESIGN, ["a", "b", "c"], costs)
    assert state.stopped == {"b": "cheaper"}
    assert set(state.due) == {("a", 3), ("a", 4), ("c", 3), ("c", 4)}


def test_later_repeats_do_not_change_an_earlier_look() -> None:
    costs: Costs = costs_of({"a": 100, "b": 80}, 3)
    more = {**costs, ("b", 3): 500.0, ("b", 4): 500.0}
    assert progress(DESIGN, ["a", "b"], more) == progress(DESIGN, ["a", "b"], costs)


def test_an_arm_whose_jobs_fail_stops() -> None:
    state = progress(DESIGN, ["a", "b"], costs_of({"a": 100, "b": None}, 3))
    assert state.stopped == {"b": "too few jobs succeeded"}
    assert state.due == ()
    assert state.looks == ({},)


def test_a_baseline_whose_jobs_fail_stops_every_arm() -> None:
    state = progress(DESIGN, ["a", "b", "c"], costs_of({"a": None, "b": 80, "c": 90}, 3))
    assert set(state.stopped.values()) == {"too few jobs succeeded"}


def test_an_undecided_comparison_ends_with_the_last_look() -> None:
    noisy = [0.7, 1.0, 1.4] * 3
    costs = {(arm, at): mean * noisy[at] for arm, mean in {"a": 100.0, "b": 90.0}.items() for at in range(9)}
    state = progress(DESIGN, ["a", "b"], costs)
    assert state.stopped == {"b": "last look"}
    assert len(state.looks) == 4
    assert state.due == ()


def test_a_single_arm_runs_the_first_wave() -> None:
    assert len(progress(DESIGN, ["a"], {}).due) == 3
    assert progress(DESIGN, ["a"], costs_of({"a": 100}, 3)).due == ()


def test_one_look_runs_every_repeat() -> None:
    every = Design(looks=(9,))
    assert len(progress(every, ["a", "b"], costs_of({"a": 100, "b": 80}, 3)).due) == 12
    state = progress(every, ["a", "b"], costs_of({"a": 100, "b": 80}, 9))
    assert state.stopped == {"b": "cheaper"}
