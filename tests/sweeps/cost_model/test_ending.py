"""End of a search, decided by its trials."""

from __future__ import annotations

import pytest

from sweeps.cost_model.costs import Measurement, cost_model
from sweeps.cost_model.ending import stop_reason, trials_since_improvement
from sweeps.cost_model.trials import Record, Search
from sweeps.space.grid import Point, space
from sweeps.space.objective import Objective
from tests.support.sweeps.trials import LOSS, completed, failed, reached, running, search, stopped

WIDE = search(space=space("8..128", None, "powers_of_two", 1), base=Point(16))
"""Five batch sizes in a row."""


def cheap(size: int, seconds: float) -> Record:
    """Return a trial that reached the target at the second of two evaluations, and cost `seconds`."""
    return reached(Point(size), [0.9, 0.5], seconds=seconds / 2)


def test_a_search_ends_when_the_neighbours_of_its_best_point_were_tried() -> None:
    spec = search(space=space("8..256", None, "powers_of_two", 1), base=Point(16))
    trials = [cheap(16, 100), cheap(8, 120), cheap(32, 130), stopped(Point(128), [0.9]), stopped(Point(256), [0.9])]
    assert stop_reason(spec, trials[:4]) is None  # three trials without an improvement
    assert stop_reason(spec, trials) == (
        "the last 4 trials were no better than batch 16, rate × 1, and all of its neighbours were tried"
    )
    assert stop_reason(spec, [cheap(16, 100), *trials[2:], cheap(64, 140)]) is None  # 8 is free, a neighbour of 16


@pytest.mark.parametrize("neighbour", [Point(8, 2.0), Point(32, 1.0), Point(32, 0.5)])
def test_a_neighbour_may_differ_in_batch_size_and_rate(neighbour: Point) -> None:
    spec = search(space=space("8..64", "0.5..2", "powers_of_two", 1), base=Point(16, 1.0))
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
    larger = search(space=space("8..256", None, "powers_of_two", 1), base=Point(16))
    trials = [cheap(16, 100), *stops, stopped(Point(128), [0.9])]
    assert stop_reason(larger, trials) is None
    assert stop_reason(larger, [cheap(16, 100), cheap(8, 200), *stops[1:], stopped(Point(128), [0.9])]) is not None


def test_only_a_gain_of_one_percent_counts_as_an_improvement() -> None:
    assert trials_since_improvement(WIDE, []) == 0
    assert trials_since_improvement(WIDE, [stopped(Point(8), [0.9]), cheap(16, 100)]) == 0
    assert trials_since_improvement(WIDE, [cheap(16, 100), cheap(8, 99.5), cheap(32, 120)]) == 2
    assert trials_since_improvement(WIDE, [cheap(16, 100), cheap(8, 98), cheap(32, 120)]) == 1


def test_failed_and_running_trials_say_nothing() -> None:
    trials = [cheap(16, 100), failed(Point(8), "Killed"), running(Point(32), [0.9]), stopped(Point(64), [0.9])]
    assert trials_since_improvement(WIDE, trials) == 1


def test_a_search_within_a_bound_ends_too() -> None:
    objective = Objective(cost="billable_seconds", quality=LOSS, bound=0.5)
    spec = search(objective=objective, space=space("8..256", None, "powers_of_two", 1), base=Point(16))
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
    rows = [
        Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in ((8, 1.0), (16, 1.0), (32, 4.0))
    ]
    spec: Search = search(objective=Objective(cost="steady_samples_per_second"), costs=cost_model(rows))
    slow, fast = completed(Point(8), [1.0, 0.5]), completed(Point(16), [1.0, 0.5])
    for record in (slow, fast):
        object.__setattr__(record.outcome, "steady_samples_per_second", float(record.point.batch_size))
    assert stop_reason(spec, [slow]) is None
    assert stop_reason(spec, [slow, fast]) == (
        "no free batch size was calibrated at more than the 15.96 samples/s of batch 16"
    )
    uncalibrated = search(objective=Objective(cost="steady_samples_per_second"))
    assert stop_reason(uncalibrated, [slow, fast]) is None
