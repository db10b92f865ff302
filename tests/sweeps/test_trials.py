"""Records of a study's trials, by hand and from Optuna's own trials."""

from __future__ import annotations

import optuna
import pytest

from sweeps.costs import Measurement, cost_model
from sweeps.search_space import Point
from sweeps.trials import (
    Objective,
    Record,
    TrialOutcome,
    best_trial,
    eligible_trials,
    free_points,
    largest_batch_size,
    nearest,
    octaves,
    records,
)
from tests.support.sweeps.trials import LOSS, ask, completed, failed, reached, running, search, stopped, write_record


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
    study, spec = optuna.create_study(), search()
    trial = study.ask(fixed_distributions={})
    write_record(study, spec, trial, record)
    (result,) = records(study.get_trials(), spec.space)
    assert (result.point, result.state, result.curve) == (record.point, record.state, record.curve)
    assert result.failure_class == record.failure_class
    if record.outcome and result.outcome:
        assert (result.outcome.billable_instance_seconds, result.outcome.reached) == (
            record.outcome.billable_instance_seconds,
            record.outcome.reached,
        )
    assert (result.outcome is None) == (record.outcome is None)


def test_a_point_is_known_by_its_parameters_before_it_has_attributes() -> None:
    study, spec = optuna.create_study(), search()
    study.enqueue_trial(spec.space.params(Point(16, 2.0)))
    assert [record.point for record in records(study.get_trials(), spec.space)] == [Point(16, 2.0)]
    _, point = ask(study, spec)
    assert [record.point for record in records(study.get_trials(), spec.space)] == [point] == [Point(16, 2.0)]
    study.ask()
    assert len(records(study.get_trials(), spec.space)) == 1


def test_of_several_trials_at_a_point_the_first_that_has_not_failed_counts() -> None:
    study, spec = optuna.create_study(), search()
    twice = running(Point(8), [0.9])
    for record in (failed(Point(8), "Killed"), twice, failed(Point(8), "Duplicate"), failed(Point(16), "Killed")):
        write_record(study, spec, study.ask(), record)
    assert [(record.point, record.state) for record in records(study.get_trials(), spec.space)] == [
        (Point(8), "running"),
        (Point(16), "failed"),
    ]


def test_the_best_reached_the_target_or_the_bound_at_the_least_cost() -> None:
    cheap, dear = reached(Point(8), [0.5], seconds=50), reached(Point(16), [0.5], seconds=80)
    trials = [dear, cheap, stopped(Point(32), [0.9]), failed(Point(32, 2.0), "Killed"), running(Point(8, 2.0), [0.4])]
    assert best_trial(search(), trials) is cheap
    assert len(eligible_trials(search(), trials)) == 2
    assert best_trial(search(), trials[2:]) is None
    within = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.6))
    bad, good = completed(Point(32), [0.9, 0.7], seconds=10), completed(Point(8), [0.9, 0.6], seconds=30)
    assert best_trial(within, [bad, good]) is good
    slow, fast = (
        Record(point=Point(size), state="complete", outcome=TrialOutcome(steady_samples_per_second=10.0 * size))
        for size in (8, 16)
    )
    assert best_trial(search(objective=Objective(cost="steady_samples_per_second")), [slow, fast]) is fast


def test_a_batch_that_ran_out_of_memory_bounds_all_larger_ones() -> None:
    spec = search()
    assert largest_batch_size(spec, []) == 32
    assert largest_batch_size(spec, [failed(Point(16), "OutOfMemory")]) == 8
    assert largest_batch_size(spec, [failed(Point(16), "Killed")]) == 32
    assert free_points(spec, [failed(Point(16), "OutOfMemory")]) == (Point(8, 0.5), Point(8), Point(8, 2.0))
    assert free_points(spec, [failed(Point(8), "OutOfMemory")]) == ()
    # A batch size that did not fit in the calibration bounds larger ones, too.
    rows = [Measurement(batch_size=8, fits=True, step_seconds=1.0), Measurement(batch_size=16, fits=False)]
    assert {point.batch_size for point in free_points(search(costs=cost_model(rows)), [])} == {8}


def test_distance_is_counted_in_octaves() -> None:
    assert octaves(Point(8, 1.0), Point(64, 0.0625)) == pytest.approx(5)
    assert nearest(Point(16, 1.0), [Point(8, 2.0), Point(32, 1.0), Point(16, 4.0)]) == Point(32, 1.0)
