"""End of a search, its finalists and the settings that are repeated, worked out by hand."""

from __future__ import annotations

import math

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.costs import Measurement, cost_model
from sweeps.early_stopping import (
    choose,
    finalists,
    rivals,
    settings,
    should_prune,
    stop_reason,
    trials_since_improvement,
)
from sweeps.search_space import Point, space
from sweeps.trials import CurvePoint, Objective, Record, TrialOutcome
from tests.support.sweeps.trials import LOSS, completed, failed, reached, running, search, stopped
from training.contract.failures import Failure

OBJECTIVES = {
    "target": Objective(cost="billable_seconds", quality=LOSS, target=0.5),
    "bound": Objective(cost="usd", quality=LOSS, bound=0.5),
    "throughput": Objective(cost="steady_samples_per_second"),
    "front": Objective(cost="billable_seconds", quality=LOSS, is_front=True),
}
WIDE = search(space=space("8..128", None, "powers_of_two"), base=Point(16))
"""Five batch sizes in a row."""


def cheap(size: int, seconds: float) -> Record:
    """Return a trial that reached the target at the second of two evaluations, and cost `seconds`."""
    return reached(Point(size), [0.9, 0.5], seconds=seconds / 2)


def test_a_search_ends_when_the_neighbours_of_its_best_point_were_tried() -> None:
    spec = search(space=space("8..256", None, "powers_of_two"), base=Point(16))
    trials = [cheap(16, 100), cheap(8, 120), cheap(32, 130), stopped(Point(128), [0.9]), stopped(Point(256), [0.9])]
    assert stop_reason(spec, trials[:4]) is None  # three trials without an improvement
    assert stop_reason(spec, trials) == (
        "the last 4 trials were no better than batch 16, rate × 1, and all of its neighbours were tried"
    )
    assert stop_reason(spec, [cheap(16, 100), *trials[2:], cheap(64, 140)]) is None  # 8 is free, a neighbour of 16


@pytest.mark.parametrize("neighbour", [Point(8, 2.0), Point(32, 1.0), Point(32, 0.5)])
def test_a_neighbour_may_differ_in_batch_size_and_rate(neighbour: Point) -> None:
    spec = search(space=space("8..64", "0.5..2", "powers_of_two"), base=Point(16, 1.0))
    best = [reached(Point(8, 0.5), [0.5], seconds=200), reached(Point(16, 1.0), [0.5])]
    known = {record.point for record in best} | {Point(64, 2.0)}  # 64 is two octaves off, and stays free
    others = [stopped(point, [0.9]) for point in spec.space.points if point not in known]
    assert stop_reason(spec, [*best, *others]) is not None
    assert stop_reason(spec, [*best, *(other for other in others if other.point != neighbour)]) is None


def test_one_trial_that_reached_the_goal_may_have_been_lucky() -> None:
    stops = [stopped(Point(size), [0.9]) for size in (8, 32, 64)]
    assert stop_reason(WIDE, [cheap(16, 100), *stops, stopped(Point(128), [0.9])]) == (
        "all 5 points that may fit in memory have been trained"
    )
    larger = search(space=space("8..256", None, "powers_of_two"), base=Point(16))
    trials = [cheap(16, 100), *stops, stopped(Point(128), [0.9])]
    assert stop_reason(larger, trials) is None
    assert stop_reason(larger, [cheap(16, 100), cheap(8, 200), *stops[1:], stopped(Point(128), [0.9])]) is not None


def test_only_a_gain_of_one_percent_counts_as_an_improvement() -> None:
    assert trials_since_improvement(WIDE, []) == 0
    assert trials_since_improvement(WIDE, [stopped(Point(8), [0.9]), cheap(16, 100)]) == 0
    assert trials_since_improvement(WIDE, [cheap(16, 100), cheap(8, 99.5), cheap(32, 120)]) == 2
    assert trials_since_improvement(WIDE, [cheap(16, 100), cheap(8, 98), cheap(32, 120)]) == 1
    # Failed and running trials say nothing.
    trials = [cheap(16, 100), failed(Point(8), "Killed"), running(Point(32), [0.9]), stopped(Point(64), [0.9])]
    assert trials_since_improvement(WIDE, trials) == 1


def test_a_search_within_a_bound_ends_too() -> None:
    objective = Objective(cost="billable_seconds", quality=LOSS, bound=0.5)
    spec = search(objective=objective, space=space("8..256", None, "powers_of_two"), base=Point(16))
    within = [completed(Point(size), [0.9, 0.4], seconds=seconds) for size, seconds in ((16, 5), (32, 8), (8, 9))]
    beyond = [completed(Point(size), [0.9, 0.6], seconds=1) for size in (64, 128)]
    assert stop_reason(spec, [*within, *beyond]) is not None
    assert stop_reason(spec, [*within[:2], *beyond]) is None


def test_a_front_ends_only_when_every_point_was_trained() -> None:
    spec = search(objective=Objective(cost="billable_seconds", quality=LOSS, is_front=True))
    trials = [completed(point, [0.9, 0.5]) for point in spec.space.points]
    assert stop_reason(spec, trials[:-1]) is None
    assert stop_reason(spec, trials) == "all 9 points that may fit in memory have been trained"


def test_throughput_is_decided_by_the_calibration() -> None:
    steps = {8: 1.0, 16: 1.0, 32: 4.0}
    costs = cost_model(Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in steps.items())
    objective = Objective(cost="steady_samples_per_second")
    slow, fast = (
        Record(point=Point(size), state="complete", outcome=TrialOutcome(steady_samples_per_second=float(size)))
        for size in (8, 16)
    )
    assert stop_reason(search(objective=objective, costs=costs), [slow]) is None
    assert stop_reason(search(objective=objective, costs=costs), [slow, fast]) == (
        "no free batch size was calibrated at more than the 16 samples/s of batch 16"
    )
    assert stop_reason(search(objective=objective), [slow, fast]) is None


def test_only_trials_near_the_best_are_finalists() -> None:
    records = [cheap(8, 100), cheap(16, 110.1), cheap(32, 109.9), stopped(Point(8, 2.0), [0.9])]
    assert finalists(search(), records, 3) == [Point(8), Point(32)]
    assert finalists(search(), records, 1) == []
    assert finalists(search(), records[:2], 3) == []  # one that is clearly the best needs no second training
    more = [*records, reached(Point(16, 2.0), [0.5], seconds=104), failed(Point(32, 2.0), "Killed")]
    assert finalists(search(), more, 2) == [Point(8), Point(16, 2.0)]


def test_a_trial_beyond_the_bound_is_no_finalist() -> None:
    spec = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.5))
    within = [completed(Point(size), [0.4], seconds=seconds) for size, seconds in ((8, 100), (16, 105))]
    assert finalists(spec, [*within, completed(Point(32), [0.6], seconds=99)], 3) == [Point(8), Point(16)]
    for objective in (OBJECTIVES["throughput"], OBJECTIVES["front"]):
        assert finalists(search(objective=objective), within, 3) == []


def test_the_cheapest_in_both_trainings_is_chosen() -> None:
    # Geometric means of 90 and 110, 100 and 98: 99.5 and 99.0.
    assert choose({"lucky": [90, 110], "steady": [100, 98]}) == "steady"
    assert choose({"lucky": [90, 110], "steady": [100, math.inf]}) == "lucky"
    assert choose({"missed": [90, math.nan]}) is None
    assert choose({}) is None


BASE = Point(8)
WON = Point(64, 2.0)
OTHER = Point(32)


def test_the_winner_and_the_baseline_span_a_factorial() -> None:
    best = {"none": (OTHER, 120.0), "inductor": (WON, 100.0)}
    assert settings(best, ("none", BASE)) == [
        ("none", BASE),
        ("inductor", WON),
        ("inductor", BASE),
        ("none", WON),
        ("none", OTHER),
    ]


def test_a_winner_with_the_baselines_compiler_is_compared_with_the_best_other_one() -> None:
    best = {"none": (WON, 90.0), "inductor": (WON, 100.0), "trcomp": (OTHER, 95.0)}
    assert settings(best, ("none", BASE)) == [
        ("none", BASE),
        ("none", WON),
        ("trcomp", BASE),
        ("trcomp", WON),
        ("trcomp", OTHER),
        ("inductor", WON),
    ]
    winner = ("none", WON)
    assert rivals(best, ("none", BASE)) == [(("trcomp", OTHER), winner), (("inductor", WON), winner)]


def test_the_baseline_has_no_rivals_because_all_settings_are_compared_with_it() -> None:
    best = {"none": (BASE, 90.0), "inductor": (WON, 100.0)}
    assert rivals(best, ("none", BASE)) == rivals({**best, "none": (BASE, 110.0)}, ("none", BASE)) == []


def test_throughput_is_maximised() -> None:
    best = {"none": (OTHER, 900.0), "inductor": (WON, 100.0)}
    assert settings(best, ("inductor", BASE), maximise=True)[1] == ("none", OTHER)


def test_a_baseline_that_wins_with_one_compiler_is_repeated_only() -> None:
    assert settings({"none": (BASE, 10.0)}, ("none", BASE)) == [("none", BASE)]
    assert settings({}, ("none", BASE)) == []


CALIBRATED = cost_model(Measurement(batch_size=size, fits=size < 32, step_seconds=0.1 * size) for size in (8, 16, 32))

numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=32), st.floats(0, 2))
seconds = st.floats(0, 1e6)


@st.composite
def trials(draw: st.DrawFn) -> Record:
    """A trial of any state, its curve of any values, at any samples that do not fall."""
    samples = sorted(draw(st.lists(st.integers(0, 2000), max_size=6)))
    curve = tuple(
        CurvePoint(samples=each, value=draw(numbers), billable_instance_seconds=draw(seconds)) for each in samples
    )
    state = draw(st.sampled_from(["running", "complete", "pruned", "failed"]))
    failure = {
        "pruned": Failure("Stopped", "why"),
        "failed": Failure(draw(st.sampled_from(["OutOfMemory", "Killed"])), "why"),
    }
    outcome = TrialOutcome(
        failure=failure.get(state),
        billable_instance_seconds=draw(seconds),
        usd=draw(st.one_of(st.none(), seconds)),
        samples=draw(st.integers(0, 2000)),
        quality=draw(numbers),
        reached=draw(st.sampled_from([None, True, False])) if state == "complete" else False,
    )
    point = Point(draw(st.sampled_from([8, 16, 32])), draw(st.sampled_from([0.5, 1.0, 2.0])))
    return Record(point=point, state=state, curve=curve, outcome=None if state == "running" else outcome)


@pytest.mark.parametrize("kind", OBJECTIVES)
@hypothesis.settings(max_examples=25, deadline=None)
@given(trials=st.lists(trials(), max_size=7), running=trials())
def test_no_decision_raises_whatever_the_trials(kind: str, trials: list[Record], running: Record) -> None:
    """A sweep that dies loses all of its jobs."""
    spec = search(objective=OBJECTIVES[kind], costs=CALIBRATED if kind in ("target", "throughput") else None)
    trials = list({record.point: record for record in trials}.values())
    assert stop_reason(spec, trials) is None or stop_reason(spec, trials)
    should_prune(spec, trials, running.point, running.curve, 10.0)
    should_prune(spec, trials, running.point, (), 10.0)
