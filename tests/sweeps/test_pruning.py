"""Pruning and the comparison of curves: each rule worked out by hand, and trials that must continue."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from sweeps.early_stopping import (
    best_value,
    diverged,
    fewest_remaining_samples,
    is_behind,
    samples_to_reach,
    seconds_per_sample,
    should_prune,
    value_at,
)
from sweeps.search_space import Point
from sweeps.trials import Objective, Quality, Record, Search
from tests.support.sweeps.trials import LOSS, completed, curve, failed, reached, running, search, stopped

SCORE = Quality(metric="eval_accuracy", higher_is_better=True)
BEST = reached(Point(8), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
"""A trial of 600 samples and 60 s to the target of 0.5."""


def reason(spec: Search, trials: list[Record], values: list[float], seconds: float = 10.0, start: float = 0.0) -> Any:
    """Reason why a trial at batch 16 is pruned; its first step begins after `start` seconds."""
    points = curve(values, seconds)
    so_far = [replace(each, billable_instance_seconds=each.billable_instance_seconds + start) for each in points]
    bill = so_far[-1].billable_instance_seconds if so_far else start
    return should_prune(spec, trials, Point(16), so_far, bill)


def test_nothing_is_pruned_before_another_trial_has_finished() -> None:
    others = [stopped(Point(8), [1.0]), failed(Point(8, 2.0), "Killed"), running(Point(32), [0.4])]
    own = reached(Point(16), [0.5], seconds=1)
    for trials in ([], others, [own]):
        assert reason(search(), trials, [1.0, 1.0], seconds=1e6) is None


def test_a_trial_that_cost_as_much_as_the_best_is_pruned() -> None:
    assert reason(search(), [BEST], [0.8, 0.51], seconds=30) == (
        "60 billable seconds so far, no fewer than the 60 of the best trial"
    )
    assert reason(search(), [BEST], [0.8, 0.51], seconds=29.9) is None
    # Before its first evaluation too: its start alone took as long.
    assert reason(search(), [BEST], [], start=60.0) is not None
    assert reason(search(), [BEST], [], start=59.0) is None
    in_dollars = search(objective=Objective(cost="usd", quality=LOSS, target=0.5))
    cheap = reached(Point(8), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5], usd=0.60)
    assert reason(in_dollars, [cheap], [0.8, 0.51], seconds=30) is not None
    assert reason(in_dollars, [cheap], [0.8, 0.51], seconds=29.9) is None


def test_a_trial_that_needs_too_many_more_samples_is_pruned() -> None:
    # At a loss of 0.9 after 300 samples and 30 s. The best took 400 samples from there: 0.8 x 400 x 0.1 s = 32 s more.
    assert reason(search(), [BEST], [1.1, 1.0, 0.9]) == (
        "at eval_loss 0.9 after 300 samples it needs at least 320 more, 62 billable seconds in all; "
        "the best so far took 60"
    )
    # At 0.85, between two evaluations of the best: 350 more, 28 s, 58 s in all.
    assert reason(search(), [BEST], [1.1, 1.0, 0.85]) is None
    # The fastest trial from a quality on counts: from 0.9 on 100 samples, 0.8 x 100 x 0.1 s = 8 s more.
    dear_but_quick = reached(Point(8, 2.0), [1.2, 1.1, 0.9, 0.5], seconds=100)
    assert reason(search(), [BEST, dear_but_quick], [1.1, 1.0, 0.9]) is None
    # The cost of a sample needs two evaluations.
    assert reason(search(), [BEST], [1.5], seconds=50) is None
    assert reason(search(), [BEST], [1.5, 1.4], seconds=25) is not None
    # 40 s of compile in both; at 100 samples the young one has paid 50 s where the other ended at 100 s.
    compiled = reached(Point(8), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5], billable_instance_seconds=100.0)
    assert reason(search(), [compiled], [0.95], start=40.0) is None


def test_a_trial_ahead_of_a_successful_one_is_not_pruned() -> None:
    # At 0.2 s a sample, 40 s and 0.8 x 200 x 0.2 s are above 60 s; but it may fall as late as the other.
    late = reached(Point(8, 0.5), [1.0, 1.0, 1.0, 0.5], seconds=15)
    assert reason(search(), [late], [1.0, 0.95], seconds=20.0) is None
    assert reason(search(), [late], [1.1, 1.05], seconds=20.0) is not None


def test_an_accuracy_is_better_when_higher() -> None:
    spec = search(objective=Objective(cost="billable_seconds", quality=SCORE, target=0.9))
    best = reached(Point(8), [0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    assert reason(spec, [best], [0.3, 0.4, 0.5]) is not None
    assert reason(spec, [best], [0.3, 0.4, 0.55]) is None


def test_throughput_and_fronts_are_never_pruned() -> None:
    front = Objective(cost="billable_seconds", quality=LOSS, is_front=True)
    for objective in (Objective(cost="steady_samples_per_second"), front):
        assert reason(search(objective=objective), [BEST], [1.0, 5.0, 5.0, 5.0, math.nan], seconds=1e6) is None


BOUND = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.6), samples=600)
WITHIN = completed(Point(8), [1.0, 0.9, 0.8, 0.7, 0.6, 0.5], seconds=100)


def test_a_trial_too_far_from_the_bound_is_pruned() -> None:
    # After 300 samples the other was at 0.8 and moved 0.3 from there; at 1.0 this one has 0.4 to go, above 0.3 / 0.8.
    assert reason(BOUND, [WITHIN], [1.2, 1.1, 1.0]) == (
        "at eval_loss 1 after 300 samples it is further from 0.6 than any trial moved in the remaining 300"
    )
    assert reason(BOUND, [WITHIN], [1.2, 1.1, 0.97]) is None
    # A steep trial beyond the bound protects others, and so does one without a trial within it.
    steep = completed(Point(8, 2.0), [1.5, 1.4, 1.3, 1.0, 0.8, 0.7], seconds=100)
    beyond = completed(Point(8), [1.0, 0.9, 0.8, 0.7], seconds=100)
    assert reason(BOUND, [WITHIN, steep], [1.2, 1.1, 1.0]) is None
    assert reason(BOUND, [beyond], [1.2, 1.1, 1.0]) is None
    # From 1.0 on the other took 400 samples to the bound: 0.8 x 400 are no more than the 320 left of 620.
    longer = search(objective=BOUND.objective, samples=620)
    assert reason(longer, [WITHIN], [1.2, 1.1, 1.0]) is None


def test_remaining_samples_and_trailing_trials_by_hand() -> None:
    assert fewest_remaining_samples(LOSS, [BEST], 0.8, 0.5) == pytest.approx(300)
    assert fewest_remaining_samples(LOSS, [BEST], 5.0, 0.5) == pytest.approx(500)
    assert fewest_remaining_samples(LOSS, [], 0.8, 0.5) == math.inf
    assert is_behind(LOSS, [BEST], curve([1.0, 0.95]))
    assert not is_behind(LOSS, [BEST], curve([1.0, 0.85]))
    # Where the other had ended, equal samples say nothing for it.
    assert is_behind(LOSS, [BEST], curve([1.0] * 7))


def test_the_samples_to_a_value_are_interpolated() -> None:
    falling = curve([1.0, 0.8, 0.4])
    assert samples_to_reach(LOSS, falling, 0.8) == 200
    assert samples_to_reach(LOSS, falling, 0.5) == pytest.approx(275)
    assert samples_to_reach(LOSS, falling, 1.5) == 100
    assert samples_to_reach(LOSS, falling, 0.3) == math.inf
    assert samples_to_reach(SCORE, curve([0.2, 0.4, 0.6]), 0.5) == pytest.approx(250)
    assert samples_to_reach(LOSS, curve([math.nan, 0.4]), 0.5) == 200


def test_a_value_is_interpolated_within_the_curve() -> None:
    falling = curve([1.0, 0.8, 0.4])
    assert value_at(falling, 250) == pytest.approx(0.6)
    assert value_at(falling, 300) == pytest.approx(0.4)
    assert value_at(falling[:1], 100) == 1.0
    assert math.isnan(value_at(falling, 99))
    assert math.isnan(value_at(falling, 301))
    assert math.isnan(value_at([], 0))
    # The best value may not be the last.
    assert best_value(LOSS, curve([1.0, 0.5, 0.7])) == 0.5
    assert best_value(SCORE, curve([0.1, 0.5, 0.7]), up_to=200) == 0.5
    assert math.isnan(best_value(LOSS, curve([math.nan])))
    # The cost of a sample leaves out the first evaluation.
    assert seconds_per_sample(curve([1.0, 0.8, 0.4], seconds=3.0)) == pytest.approx(0.03)
    assert math.isnan(seconds_per_sample(curve([1.0])))


@pytest.mark.parametrize(
    ("quality", "values", "expected"),
    [
        (LOSS, (1.0, 0.9, math.nan), True),
        (LOSS, (1.0, math.inf), True),
        (LOSS, (1.0, 1.2, 1.3, 1.4), True),
        (LOSS, (1.0, 1.2, 1.3), False),
        (LOSS, (1.0, 1.2, 1.05, 1.4), False),
        (LOSS, (1.0, 0.5, 0.9, 1.0, 1.05), False),
        (SCORE, (0.5, 0.4, 0.4, 0.4), True),
        (SCORE, (0.3, 0.29, 0.29, 0.29), False),
        (LOSS, (), False),
    ],
)
def test_a_training_that_stays_worse_than_it_began_has_diverged(
    quality: Quality, values: tuple[float, ...], expected: bool
) -> None:
    assert diverged(quality, curve(values)) is expected
    assert ("it diverged" in str(reason(search(), [], list(values)))) is (expected and quality is LOSS)
