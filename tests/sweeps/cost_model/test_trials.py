"""What is known of a study's trials, by hand and by Optuna's own trials."""

from __future__ import annotations

import math

import optuna
import pytest

from sweeps.cost_model.costs import Measured, cost_model
from sweeps.cost_model.trials import (
    Record,
    best,
    finished,
    free_points,
    largest_batch_size,
    nearest,
    octaves,
    records,
)
from sweeps.space.grid import Point, space
from sweeps.space.objective import Objective
from tests.support.sweeps.trials import LOSS, ask, completed, failed, reached, running, search, stopped, tell


@pytest.mark.parametrize(
    "record",
    [
        reached(Point(8, 0.5), [0.9, 0.5]),
        stopped(Point(16, 1.0), [0.9, 0.8]),
        failed(Point(32, 2.0), "OutOfMemory"),
        running(Point(32, 2.0), [0.9]),
    ],
    ids=lambda record: record.state,
)
def test_a_trial_is_read_as_it_was_written(record: Record) -> None:
    study, asked = optuna.create_study(), search()
    trial = study.ask(fixed_distributions={})
    tell(study, asked, trial, record)
    (found,) = records(study.get_trials(), asked.space)
    assert (found.point, found.state, found.curve) == (record.point, record.state, record.curve)
    assert found.failure_class == record.failure_class
    if record.ended and found.ended:
        assert (found.ended.billable_instance_seconds, found.ended.reached) == (
            record.ended.billable_instance_seconds,
            record.ended.reached,
        )
    assert (found.ended is None) == (record.ended is None)


def test_a_point_is_known_by_its_parameters_before_it_has_attributes() -> None:
    study, asked = optuna.create_study(), search()
    study.enqueue_trial(asked.space.params(Point(16, 2.0)))
    assert [record.point for record in records(study.get_trials(), asked.space)] == [Point(16, 2.0)]
    _, point = ask(study, asked)
    assert [record.point for record in records(study.get_trials(), asked.space)] == [point] == [Point(16, 2.0)]
    study.ask()
    assert len(records(study.get_trials(), asked.space)) == 1


def test_a_trial_that_has_ended_is_read_once() -> None:
    study, asked = optuna.create_study(), search()
    tell(study, asked, study.ask(), reached(Point(8), [0.5]))
    tell(study, asked, study.ask(), running(Point(16), [0.9]))
    known: dict[int, Record] = {}
    first = records(study.get_trials(), asked.space, known)
    assert list(known) == [0]
    again = records(study.get_trials(), asked.space, known)
    assert again == first
    assert again[0] is known[0]


def test_of_several_trials_at_a_point_the_first_that_has_not_failed_counts() -> None:
    study, asked = optuna.create_study(), search()
    twice = running(Point(8), [0.9])
    for record in (failed(Point(8), "Killed"), twice, failed(Point(8), "Duplicate"), failed(Point(16), "Killed")):
        tell(study, asked, study.ask(), record)
    assert [(record.point, record.state) for record in records(study.get_trials(), asked.space)] == [
        (Point(8), "running"),
        (Point(16), "failed"),
    ]


def test_the_best_is_the_cheapest_that_reached_the_target() -> None:
    cheap, dear = reached(Point(8), [0.5], seconds=50), reached(Point(16), [0.5], seconds=80)
    found = [dear, cheap, stopped(Point(32), [0.9]), failed(Point(32, 2.0), "Killed"), running(Point(8, 2.0), [0.4])]
    assert best(search(), found) is cheap
    assert len(finished(search(), found)) == 2
    assert best(search(), found[2:]) is None


def test_or_the_cheapest_within_the_bound() -> None:
    asked = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.6))
    cheap, good = completed(Point(32), [0.9, 0.7], seconds=10), completed(Point(8), [0.9, 0.6], seconds=30)
    assert best(asked, [cheap, good]) is good
    assert best(asked, [cheap]) is None


def test_or_the_fastest() -> None:
    asked = search(objective=Objective(cost="steady_samples_per_second"))
    slow, fast = completed(Point(8), [0.9]), completed(Point(16), [0.9])
    for record, rate in ((slow, 10.0), (fast, 20.0)):
        object.__setattr__(record.ended, "steady_samples_per_second", rate)
    assert best(asked, [slow, fast]) is fast


def test_a_batch_that_ran_out_of_memory_bounds_all_larger_ones() -> None:
    asked = search()
    assert largest_batch_size(asked, []) == 32
    assert largest_batch_size(asked, [failed(Point(16), "OutOfMemory")]) == 8
    assert largest_batch_size(asked, [failed(Point(16), "Killed")]) == 32
    assert free_points(asked, [failed(Point(16), "OutOfMemory")]) == (Point(8, 0.5), Point(8), Point(8, 2.0))
    assert free_points(asked, [failed(Point(8), "OutOfMemory")]) == ()


def test_so_does_the_calibration() -> None:
    rows = [Measured(batch_size=8, fits=True, step_seconds=1.0), Measured(batch_size=16, fits=False)]
    assert {point.batch_size for point in free_points(search(costs=cost_model(rows)), [])} == {8}


def test_taken_points_are_not_free_whatever_became_of_them() -> None:
    asked = search(space=space("8..16", "1..2", "powers_of_two", 1))
    found = [reached(Point(8), [0.5]), stopped(Point(8, 2.0), [0.9]), failed(Point(16), "Killed")]
    assert free_points(asked, found) == (Point(16, 2.0),)
    assert free_points(asked, [*found, running(Point(16, 2.0))]) == ()


def test_distance_is_counted_in_octaves() -> None:
    assert octaves(Point(8, 1.0), Point(64, 0.0625)) == pytest.approx(5)
    assert octaves(Point(8), Point(12)) == pytest.approx(math.log2(1.5))
    assert nearest(Point(16, 1.0), [Point(8, 2.0), Point(32, 1.0), Point(16, 4.0)]) == Point(32, 1.0)
