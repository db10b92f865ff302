"""What the trials tell of the samples that points need, and what free points promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sweeps.cost_model.costs import Measured, cost_model
from sweeps.cost_model.estimates import costs_now, observations, suggested_samples
from sweeps.cost_model.expected_improvement import most_promising, nothing_left, promises
from sweeps.cost_model.surrogate import Observation, predict
from sweeps.cost_model.trials import Record, Search
from sweeps.space.grid import Point, space
from sweeps.space.objective import Objective, Quality
from tests.support.sweeps.trials import LOSS, completed, curve, failed, reached, running, search, stopped

TO_TARGET = reached(Point(8), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5])


def told(asked: Search, *found: Record) -> dict[Point, tuple[float, float]]:
    """What the trials tell, by point: samples and error."""
    return {each.point: (math.exp(each.log_samples), each.error) for each in observations(asked, found)}


def test_a_trial_that_came_to_its_target_tells_its_samples() -> None:
    assert told(search(), TO_TARGET) == {Point(8): (pytest.approx(600), 0.1)}


def test_one_that_was_stopped_is_taken_to_go_on_at_its_own_pace() -> None:
    # It took 300 samples to 0.9, the other 200: 600 x 300 / 200 in all, of which a third was seen.
    half = stopped(Point(16), [1.1, 1.0, 0.9])
    samples, error = told(search(), TO_TARGET, half)[Point(16)]
    assert samples == pytest.approx(900)
    assert error == pytest.approx(0.1 + 0.5 * 2 / 3)
    assert suggested_samples(LOSS, half.curve, [TO_TARGET]) == pytest.approx(900)
    assert math.isnan(suggested_samples(LOSS, half.curve, []))


def test_one_that_runs_tells_as_much() -> None:
    assert told(search(), TO_TARGET, running(Point(16), [1.1, 1.0, 0.9]))[Point(16)][0] == pytest.approx(900)
    assert Point(16) not in told(search(), TO_TARGET, running(Point(16)))


def test_it_needs_more_than_it_saw() -> None:
    slow = stopped(Point(16), [0.95, 0.95, 0.95, 0.95])
    assert told(search(), TO_TARGET, slow)[Point(16)][0] == pytest.approx(440)
    assert told(search(), slow)[Point(16)][0] == pytest.approx(800)
    # Behind the other's first evaluation, where nothing is known of the other: twice what was seen.
    assert told(search(), TO_TARGET, stopped(Point(16), [1.2]))[Point(16)][0] == pytest.approx(200)


def test_one_that_diverged_tells_where_not_to_go() -> None:
    assert told(search(), TO_TARGET, stopped(Point(16), [1.0, math.nan]))[Point(16)] == (pytest.approx(1200), 0.6)


def test_a_job_that_failed_tells_nothing() -> None:
    assert told(search(), failed(Point(16), "OutOfMemory"), failed(Point(8), "Killed")) == {}


def test_a_bound_asks_for_the_samples_after_which_the_quality_is_within_it() -> None:
    asked = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.5))
    # Over the second half, from 500 to 1,000 samples, the loss falls by 0.1 ln 2: 0.1 for each factor of e.
    values = [0.5 + 0.1 * math.log(1100 / samples) for samples in range(100, 1001, 100)]
    samples, error = told(asked, completed(Point(8), values))[Point(8)]
    assert samples == pytest.approx(1100)
    assert error == pytest.approx(0.2 + 0.3 * math.log(1.1))
    # One that was stopped half-way stands at 0.6: a factor of e from there.
    half = stopped(Point(16), [value - values[4] + 0.6 for value in values[:5]])
    assert told(asked, completed(Point(8), values), half)[Point(16)] == (
        pytest.approx(500 * math.e),
        pytest.approx(0.75),
    )


def test_an_accuracy_within_its_bound_needs_fewer_samples() -> None:
    score = Quality(metric="eval_accuracy", higher_is_better=True)
    asked = search(objective=Objective(cost="billable_seconds", quality=score, bound=0.8))
    values = [0.9 - 0.1 * math.log(1000 / samples) for samples in range(100, 1001, 100)]
    assert told(asked, completed(Point(8), values))[Point(8)][0] == pytest.approx(1000 / math.e)


def test_many_trials_are_thinned_to_the_cheapest_some_others_and_the_latest() -> None:
    asked = search(space=space("8..2048", "0.01..100", "multiples_of_eight", 1))
    points = asked.space.points
    found = [reached(point, [0.5] * (1 + at % 40)) for at, point in enumerate(points[:900])]
    found += [stopped(point, [0.9]) for point in points[900:1000]] + [
        running(points[1000], [0.9]),
        running(points[1001]),
    ]
    kept = observations(asked, found)
    assert len(kept) <= 100
    # 23 of each length from 100 to 4,000 samples: the cheapest 50 are of 100, 200 and 300.
    assert sum(math.exp(each.log_samples) < 350 for each in kept[:50]) == 50
    assert math.exp(kept[60].log_samples) > 350
    assert kept[-1].point == points[1000]


def test_costs_follow_what_trials_paid() -> None:
    rows = [Measured(batch_size=size, fits=True, step_seconds=0.4 + 0.05 * size) for size in (8, 16, 32)]
    # Calibrated at 0.1 s a sample of batch 8; this one took 0.2, and 40 s beside its samples.
    slow = reached(Point(8), [1.0, 0.5], seconds=20.0)
    object.__setattr__(slow.ended, "billable_instance_seconds", 80.0)
    costs = costs_now(search(costs=cost_model(rows)), [slow])
    assert costs is not None
    assert costs.seconds_per_sample(8) == pytest.approx(0.2)
    assert costs.seconds_per_sample(16) == pytest.approx(2 * 1.2 / 16)
    assert costs.fixed_seconds == pytest.approx(40)


def test_without_a_calibration_costs_are_what_trials_tell() -> None:
    assert costs_now(search(), []) is None
    found = [reached(Point(8), [1.0, 0.5], seconds=10.0), reached(Point(32), [1.0, 0.5], seconds=4.0)]
    costs = costs_now(search(), found)
    assert costs is not None
    assert costs.seconds_per_sample(8) == pytest.approx(0.1)
    assert costs.seconds_per_sample(32) == pytest.approx(0.04)
    # Steps of 0.8 s and 1.28 s: 0.64 s each and 0.02 s a sample.
    assert costs.seconds_per_sample(16) == pytest.approx((0.64 + 16 * 0.02) / 16)


def test_the_prediction_meets_what_was_seen_and_knows_little_far_away() -> None:
    asked = search(space=space("8..256", "0.25..4", "powers_of_two", 1))
    seen = [Observation(point=Point(16), log_samples=math.log(2000), error=0.05)]
    found = predict(asked.space, asked.base, seen, [Point(16), Point(256, 4.0)], 5000)
    assert found.weights.sum() == pytest.approx(1)
    assert np.exp(found.mean[0]) == pytest.approx(2000, rel=0.02)
    spread = np.sqrt(found.weights @ (found.deviations**2 + (found.means - found.mean) ** 2))
    assert spread[0] < 0.1 < 0.4 < spread[1]
    # Larger batches need no fewer samples.
    assert found.mean[1] > found.mean[0]


def test_the_noise_scale_is_learnt() -> None:
    """S = 1000 (1 + B / 32) at the best rate everywhere: what 8, 32 and 128 tell says 256."""
    asked = search(space=space("8..256", None, "powers_of_two", 1))
    seen = [
        Observation(point=Point(size), log_samples=math.log(1000 * (1 + size / 32)), error=0.02)
        for size in (8, 16, 32, 64)
    ]
    found = predict(asked.space, asked.base, seen, [Point(256)], 5000)
    assert np.exp(found.mean[0]) == pytest.approx(9000, rel=0.25)


def test_the_first_trial_is_the_base_and_the_next_one_is_not_random() -> None:
    assert most_promising(search(), []) == Point(8)
    assert most_promising(search(base=Point(12)), []) in search().space.points
    rows = [Measured(batch_size=size, fits=True, step_seconds=1.0) for size in (8, 16, 32)]
    # A step takes as long at every size: the largest batch halves the price of a sample twice.
    assert most_promising(search(costs=cost_model(rows)), [TO_TARGET]) == Point(32, 1.0)


def test_a_trial_that_runs_is_not_suggested_again_nor_is_what_it_will_tell() -> None:
    rows = [Measured(batch_size=size, fits=True, step_seconds=1.0) for size in (8, 16, 32)]
    asked = search(costs=cost_model(rows))
    first = most_promising(asked, [TO_TARGET])
    assert first is not None
    second = most_promising(asked, [TO_TARGET, running(first)])
    assert second not in (first, None)
    assert most_promising(asked, [running(Point(8))]) not in (Point(8), None)


def test_what_cannot_be_cheaper_promises_nothing() -> None:
    rows = [Measured(batch_size=size, fits=True, step_seconds=size**2 / 10) for size in (8, 16, 32)]
    # Twice the batch, twice the price of a sample, and never fewer samples at the same rate.
    promised = {each.point: each for each in promises(search(costs=cost_model(rows)), [TO_TARGET])}
    assert promised[Point(32)].saving_seconds < 0.01 * 60
    assert promised[Point(32)].billable_instance_seconds <= 60 * 1.05


def test_a_bound_pays_for_cheap_points_that_may_keep_to_it() -> None:
    asked = search(
        objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.5),
        costs=cost_model([Measured(batch_size=size, fits=True, step_seconds=1.0) for size in (8, 16, 32)]),
    )
    base = completed(Point(8), [1.0, 0.8, 0.6, 0.5, 0.45, 0.43, 0.42, 0.41, 0.40, 0.39], seconds=12.5)
    assert most_promising(asked, [base]) in (Point(32), Point(32, 2.0))
    far = completed(Point(32), [1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.0, 0.99, 0.98, 0.97], seconds=3.1)
    chances = {each.point: each.saving_seconds for each in promises(asked, [base, far])}
    assert chances[Point(16)] > chances[Point(32, 0.5)]


def test_fronts_and_throughput_have_no_promises() -> None:
    assert promises(search(objective=Objective(cost="billable_seconds", quality=LOSS, is_front=True)), []) == []
    assert promises(search(objective=Objective(cost="steady_samples_per_second")), []) == []


def test_a_sweep_ends_when_no_point_is_worth_a_trial() -> None:
    sizes = (8, 16, 32, 64, 128)
    asked = search(
        space=space("8..128", None, "powers_of_two", 1),
        costs=cost_model([Measured(batch_size=size, fits=True, step_seconds=size**2 / 10) for size in sizes]),
    )
    quick = reached(Point(8), [0.9, 0.5], seconds=80)
    dearer = [reached(Point(size), [1.0, 0.8, 0.5], seconds=10 * size) for size in (16, 32, 64)]
    assert nothing_left(asked, []) is None
    # Three trials are too few to trust, whatever they tell.
    assert nothing_left(asked, [quick, *dearer[:2]]) is None
    why = nothing_left(asked, [quick, *dearer])
    assert why is not None
    assert why.startswith("the best of 1 free point (batch 128, rate × 1) is expected to save")
    assert why.endswith(" billable instance seconds, less than 1 %")
    assert nothing_left(asked, [quick, *(running(Point(size)) for size in sizes[1:])]) == (
        "all 5 points that may fit the memory have been trained"
    )


def test_throughput_is_settled_by_the_calibration() -> None:
    rows = [Measured(batch_size=size, fits=True, step_seconds=step) for size, step in ((8, 1.0), (16, 1.0), (32, 4.0))]
    asked = search(objective=Objective(cost="steady_samples_per_second"), costs=cost_model(rows))
    slow, fast = completed(Point(8), curve_values()), completed(Point(16), curve_values())
    for record in (slow, fast):
        object.__setattr__(record.ended, "steady_samples_per_second", float(record.point.batch_size))
    assert nothing_left(asked, [slow]) is None
    assert nothing_left(asked, [slow, fast]) == (
        "no free batch size was calibrated at more than the 15.96 samples/s of batch 16"
    )


def curve_values() -> list[float]:
    return [point.value for point in curve([1.0, 0.5])]
