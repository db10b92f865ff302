"""Estimates from trials, and expected improvement of free points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sweeps.cost_model.costs import Measurement, cost_model
from sweeps.cost_model.estimates import corrected_costs, observations, suggested_samples
from sweeps.cost_model.expected_improvement import best_free_point, expected_improvements, stop_reason
from sweeps.cost_model.surrogate import Observation, predict
from sweeps.cost_model.trials import Record, Search
from sweeps.space.grid import Point, space
from sweeps.space.objective import Objective, Quality
from tests.support.sweeps.trials import LOSS, completed, curve, failed, reached, running, search, stopped

TO_TARGET = reached(Point(8), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5])


def estimates(spec: Search, *trials: Record) -> dict[Point, tuple[float, float]]:
    """Return the estimates from trials by point: samples and error."""
    return {each.point: (math.exp(each.log_samples), each.error) for each in observations(spec, trials)}


def test_a_trial_that_reached_its_target_gives_its_samples() -> None:
    assert estimates(search(), TO_TARGET) == {Point(8): (pytest.approx(600), 0.1)}


def test_a_stopped_trial_is_extrapolated_at_its_own_pace() -> None:
    # It took 300 samples to 0.9, the other 200: 600 x 300 / 200 in all, of which a third was seen.
    half = stopped(Point(16), [1.1, 1.0, 0.9])
    samples, error = estimates(search(), TO_TARGET, half)[Point(16)]
    assert samples == pytest.approx(900)
    assert error == pytest.approx(0.1 + 0.5 * 2 / 3)
    assert suggested_samples(LOSS, half.curve, [TO_TARGET]) == pytest.approx(900)
    assert math.isnan(suggested_samples(LOSS, half.curve, []))


def test_a_running_trial_is_extrapolated_too() -> None:
    assert estimates(search(), TO_TARGET, running(Point(16), [1.1, 1.0, 0.9]))[Point(16)][0] == pytest.approx(900)
    assert Point(16) not in estimates(search(), TO_TARGET, running(Point(16)))


def test_an_unfinished_trial_needs_more_than_it_trained() -> None:
    slow = stopped(Point(16), [0.95, 0.95, 0.95, 0.95])
    assert estimates(search(), TO_TARGET, slow)[Point(16)][0] == pytest.approx(440)
    assert estimates(search(), slow)[Point(16)][0] == pytest.approx(800)
    # Behind the other's first evaluation, where nothing is known of the other: twice what was seen.
    assert estimates(search(), TO_TARGET, stopped(Point(16), [1.2]))[Point(16)][0] == pytest.approx(200)


def test_a_diverged_trial_marks_its_point_as_bad() -> None:
    assert estimates(search(), TO_TARGET, stopped(Point(16), [1.0, math.nan]))[Point(16)] == (pytest.approx(1200), 0.6)


def test_a_failed_job_gives_no_estimate() -> None:
    assert estimates(search(), failed(Point(16), "OutOfMemory"), failed(Point(8), "Killed")) == {}


def test_a_bound_is_converted_to_samples() -> None:
    spec = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.5))
    # Over the second half, from 500 to 1,000 samples, the loss falls by 0.1 ln 2: 0.1 for each factor of e.
    values = [0.5 + 0.1 * math.log(1100 / samples) for samples in range(100, 1001, 100)]
    samples, error = estimates(spec, completed(Point(8), values))[Point(8)]
    assert samples == pytest.approx(1100)
    assert error == pytest.approx(0.2 + 0.3 * math.log(1.1))
    # One that was stopped half-way stands at 0.6: a factor of e from there.
    half = stopped(Point(16), [value - values[4] + 0.6 for value in values[:5]])
    assert estimates(spec, completed(Point(8), values), half)[Point(16)] == (
        pytest.approx(500 * math.e),
        pytest.approx(0.75),
    )


def test_an_accuracy_within_its_bound_needs_fewer_samples() -> None:
    score = Quality(metric="eval_accuracy", higher_is_better=True)
    spec = search(objective=Objective(cost="billable_seconds", quality=score, bound=0.8))
    values = [0.9 - 0.1 * math.log(1000 / samples) for samples in range(100, 1001, 100)]
    assert estimates(spec, completed(Point(8), values))[Point(8)][0] == pytest.approx(1000 / math.e)


def test_many_trials_are_thinned_to_the_cheapest_some_others_and_the_latest() -> None:
    spec = search(space=space("8..2048", "0.01..100", "multiples_of_eight", 1))
    points = spec.space.points
    trials = [reached(point, [0.5] * (1 + at % 40)) for at, point in enumerate(points[:900])]
    trials += [stopped(point, [0.9]) for point in points[900:1000]] + [
        running(points[1000], [0.9]),
        running(points[1001]),
    ]
    kept = observations(spec, trials)
    assert len(kept) <= 100
    # 23 of each length from 100 to 4,000 samples: the cheapest 50 are of 100, 200 and 300.
    assert sum(math.exp(each.log_samples) < 350 for each in kept[:50]) == 50
    assert math.exp(kept[60].log_samples) > 350
    assert kept[-1].point == points[1000]


def test_costs_are_corrected_by_trials() -> None:
    rows = [Measurement(batch_size=size, fits=True, step_seconds=0.4 + 0.05 * size) for size in (8, 16, 32)]
    # Calibrated at 0.1 s a sample of batch 8; this one took 0.2, and 40 s beside its samples.
    slow = reached(Point(8), [1.0, 0.5], seconds=20.0)
    object.__setattr__(slow.outcome, "billable_instance_seconds", 80.0)
    costs = corrected_costs(search(costs=cost_model(rows)), [slow])
    assert costs is not None
    assert costs.seconds_per_sample(8) == pytest.approx(0.2)
    assert costs.seconds_per_sample(16) == pytest.approx(2 * 1.2 / 16)
    assert costs.fixed_seconds == pytest.approx(40)


def test_without_a_calibration_costs_come_from_trials() -> None:
    assert corrected_costs(search(), []) is None
    trials = [reached(Point(8), [1.0, 0.5], seconds=10.0), reached(Point(32), [1.0, 0.5], seconds=4.0)]
    costs = corrected_costs(search(), trials)
    assert costs is not None
    assert costs.seconds_per_sample(8) == pytest.approx(0.1)
    assert costs.seconds_per_sample(32) == pytest.approx(0.04)
    # Steps of 0.8 s and 1.28 s: 0.64 s each and 0.02 s a sample.
    assert costs.seconds_per_sample(16) == pytest.approx((0.64 + 16 * 0.02) / 16)


def test_the_prediction_meets_the_observations_and_widens_far_away() -> None:
    spec = search(space=space("8..256", "0.25..4", "powers_of_two", 1))
    observed = [Observation(point=Point(16), log_samples=math.log(2000), error=0.05)]
    trials = predict(spec.space, spec.base, observed, [Point(16), Point(256, 4.0)], 5000)
    assert trials.weights.sum() == pytest.approx(1)
    assert np.exp(trials.mean[0]) == pytest.approx(2000, rel=0.02)
    spread = np.sqrt(trials.weights @ (trials.deviations**2 + (trials.means - trials.mean) ** 2))
    assert spread[0] < 0.1 < 0.4 < spread[1]
    # Larger batches need no fewer samples.
    assert trials.mean[1] > trials.mean[0]


def test_the_noise_scale_is_learned() -> None:
    """S = 1000 (1 + B / 32) at the best rate everywhere, so 8, 32 and 128 determine the value of 256."""
    spec = search(space=space("8..256", None, "powers_of_two", 1))
    observed = [
        Observation(point=Point(size), log_samples=math.log(1000 * (1 + size / 32)), error=0.02)
        for size in (8, 16, 32, 64)
    ]
    trials = predict(spec.space, spec.base, observed, [Point(256)], 5000)
    assert np.exp(trials.mean[0]) == pytest.approx(9000, rel=0.25)


def test_the_first_trial_is_the_base_and_the_next_one_is_not_random() -> None:
    assert best_free_point(search(), []) == Point(8)
    assert best_free_point(search(base=Point(12)), []) in search().space.points
    rows = [Measurement(batch_size=size, fits=True, step_seconds=1.0) for size in (8, 16, 32)]
    # A step takes as long at every size: the largest batch halves the price of a sample twice.
    assert best_free_point(search(costs=cost_model(rows)), [TO_TARGET]) == Point(32, 1.0)


def test_a_running_trial_counts_as_its_expected_outcome() -> None:
    rows = [Measurement(batch_size=size, fits=True, step_seconds=1.0) for size in (8, 16, 32)]
    spec = search(costs=cost_model(rows))
    first = best_free_point(spec, [TO_TARGET])
    assert first is not None
    second = best_free_point(spec, [TO_TARGET, running(first)])
    assert second not in (first, None)
    assert best_free_point(spec, [running(Point(8))]) not in (Point(8), None)


def test_a_point_that_cannot_be_cheaper_saves_nothing() -> None:
    rows = [Measurement(batch_size=size, fits=True, step_seconds=size**2 / 10) for size in (8, 16, 32)]
    # Twice the batch, twice the price of a sample, and never fewer samples at the same rate.
    promised = {each.point: each for each in expected_improvements(search(costs=cost_model(rows)), [TO_TARGET])}
    assert promised[Point(32)].saving_seconds < 0.01 * 60
    assert promised[Point(32)].billable_instance_seconds <= 60 * 1.05


def test_cheap_points_that_may_meet_the_bound_save() -> None:
    spec = search(
        objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.5),
        costs=cost_model([Measurement(batch_size=size, fits=True, step_seconds=1.0) for size in (8, 16, 32)]),
    )
    base = completed(Point(8), [1.0, 0.8, 0.6, 0.5, 0.45, 0.43, 0.42, 0.41, 0.40, 0.39], seconds=12.5)
    assert best_free_point(spec, [base]) in (Point(32), Point(32, 2.0))
    far = completed(Point(32), [1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.0, 0.99, 0.98, 0.97], seconds=3.1)
    chances = {each.point: each.saving_seconds for each in expected_improvements(spec, [base, far])}
    assert chances[Point(16)] > chances[Point(32, 0.5)]


def test_fronts_and_throughput_have_no_expected_improvement() -> None:
    assert (
        expected_improvements(search(objective=Objective(cost="billable_seconds", quality=LOSS, is_front=True)), [])
        == []
    )
    assert expected_improvements(search(objective=Objective(cost="steady_samples_per_second")), []) == []


def test_a_sweep_ends_when_no_point_is_worth_a_trial() -> None:
    sizes = (8, 16, 32, 64, 128)
    spec = search(
        space=space("8..128", None, "powers_of_two", 1),
        costs=cost_model([Measurement(batch_size=size, fits=True, step_seconds=size**2 / 10) for size in sizes]),
    )
    quick = reached(Point(8), [0.9, 0.5], seconds=80)
    dearer = [reached(Point(size), [1.0, 0.8, 0.5], seconds=10 * size) for size in (16, 32, 64)]
    assert stop_reason(spec, []) is None
    # Three trials are too few to trust, whatever they tell.
    assert stop_reason(spec, [quick, *dearer[:2]]) is None
    why = stop_reason(spec, [quick, *dearer])
    assert why is not None
    assert why.startswith("the best of 1 free point (batch 128, rate × 1) is expected to save")
    assert why.endswith(" billable seconds, less than 1 %")
    assert stop_reason(spec, [quick, *(running(Point(size)) for size in sizes[1:])]) == (
        "all 5 points that may fit in memory have been trained"
    )


def test_throughput_is_decided_by_the_calibration() -> None:
    rows = [
        Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in ((8, 1.0), (16, 1.0), (32, 4.0))
    ]
    spec = search(objective=Objective(cost="steady_samples_per_second"), costs=cost_model(rows))
    slow, fast = completed(Point(8), curve_values()), completed(Point(16), curve_values())
    for record in (slow, fast):
        object.__setattr__(record.outcome, "steady_samples_per_second", float(record.point.batch_size))
    assert stop_reason(spec, [slow]) is None
    assert stop_reason(spec, [slow, fast]) == (
        "no free batch size was calibrated at more than the 15.96 samples/s of batch 16"
    )


def curve_values() -> list[float]:
    return [point.value for point in curve([1.0, 0.5])]
