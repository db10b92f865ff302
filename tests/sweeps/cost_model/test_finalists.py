"""Finalists of a search, and the choice by both of their trainings."""

from __future__ import annotations

import math

import pytest

from sweeps.cost_model.finalists import choose, finalists
from sweeps.cost_model.trials import Record
from sweeps.space.grid import Point
from sweeps.space.objective import Objective
from tests.support.sweeps.trials import LOSS, completed, failed, reached, search, stopped


def trial(size: int, seconds: float) -> Record:
    return reached(Point(size), [0.5], seconds=seconds)


def test_only_trials_near_the_best_are_finalists() -> None:
    records = [trial(8, 100), trial(16, 110.1), trial(32, 109.9), stopped(Point(8, 2.0), [0.9])]
    assert finalists(search(), records, 3) == [Point(8), Point(32)]
    assert finalists(search(), records, 1) == []
    assert finalists(search(), records[:2], 3) == []  # one that is clearly the best needs no second training
    more = [*records, reached(Point(16, 2.0), [0.5], seconds=104), failed(Point(32, 2.0), "Killed")]
    assert finalists(search(), more, 2) == [Point(8), Point(16, 2.0)]


def test_a_trial_beyond_the_bound_is_no_finalist() -> None:
    spec = search(objective=Objective(cost="billable_seconds", quality=LOSS, bound=0.5))
    within = [completed(Point(size), [0.4], seconds=seconds) for size, seconds in ((8, 100), (16, 105))]
    assert finalists(spec, [*within, completed(Point(32), [0.6], seconds=99)], 3) == [Point(8), Point(16)]


@pytest.mark.parametrize(
    "objective",
    [
        Objective(cost="steady_samples_per_second"),
        Objective(cost="billable_seconds", quality=LOSS, is_front=True),
    ],
)
def test_throughput_and_fronts_have_no_finalists(objective: Objective) -> None:
    records = [completed(Point(size), [0.5]) for size in (8, 16)]
    assert finalists(search(objective=objective), records, 3) == []


def test_the_cheapest_in_both_trainings_is_chosen() -> None:
    # Geometric means of 90 and 110, 100 and 98: 99.5 and 99.0.
    assert choose({"lucky": [90, 110], "steady": [100, 98]}) == "steady"
    assert choose({"lucky": [90, 110], "steady": [100, math.inf]}) == "lucky"
    assert choose({"missed": [90, math.nan]}) is None
    assert choose({}) is None
