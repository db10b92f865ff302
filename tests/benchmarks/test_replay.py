"""Sweeps replayed on a table worked out by hand."""

from __future__ import annotations

import math

import pytest

from benchmarks.bench_sweep import cost_until_right, percentile_90
from benchmarks.recorded.replay import Cells, Grid, Replay, build_grid, replay, starts
from sweeps.search_space import Point

SPEC = {"metric": "eval_loss", "higher_is_better": False, "target": 0.5, "samples": 300, "base_batch_size": 8}


def job(size: int, multiplier: float, values: list[float], seconds: float, seed: int = 0) -> list[Cells]:
    """Return lines of one evaluation every 100 samples and `seconds`, and of the job's end 1 s after the last."""
    rows = [
        {"batch_size": size, "multiplier": multiplier, "seed": seed, "samples": 100 * at, "value": value,
         "billable_seconds": seconds * at, "reached": value <= 0.5}
        for at, value in enumerate(values, start=1)
    ]  # fmt: skip
    return [*rows, {**rows[-1], "billable_seconds": seconds * len(values) + 1}]


ROWS = [
    *job(8, 1.0, [1.0, 0.8, 0.5], 10),
    *job(8, 2.0, [0.8, 0.5], 10),
    *job(16, 1.0, [1.2, 1.0, 0.9], 6),
    *job(16, 2.0, [0.9, 0.5], 6),
]
"""The jobs take 31, 21, 19 and 13 s. The third does not reach the target."""


def small() -> Grid:
    return build_grid(SPEC, ROWS)


def test_a_grid_returns_the_cost_of_each_point() -> None:
    recorded = small()
    assert {point: recorded.cost(point) for point in recorded.runs} == {
        Point(8, 1.0): 31,
        Point(8, 2.0): 21,
        Point(16, 1.0): math.inf,
        Point(16, 2.0): 13,
    }
    assert (recorded.best_cost, recorded.full_grid_seconds) == (13, 31 + 21 + 19 + 13)
    assert starts(recorded) == (Point(8), Point(16))
    # The mean of several seeds. A failed one is part of the cost of the successful ones.
    assert build_grid(SPEC, [*ROWS, *job(16, 2.0, [0.9, 0.6, 0.5], 6, seed=1)]).cost(Point(16, 2.0)) == (13 + 19) / 2
    assert build_grid(SPEC, [*ROWS, *job(16, 2.0, [0.9, 0.8, 0.7], 6, seed=1)]).cost(Point(16, 2.0)) == 13 + 19


@pytest.mark.parametrize("start", [Point(8), Point(16)])
def test_a_sweep_pays_for_all_trials_until_its_end(start: Point) -> None:
    # Four points are too few to end early: all are trained. The best one's cost decides which jobs are stopped.
    replayed = replay(small(), "grid", start, 0)
    assert (replayed.choice, replayed.trials) == (Point(16, 2.0), 4)
    assert replayed.excess(small()) == 0
    # From batch 8: 31, 21, then 16 at 18 s with 0.9 after 300 samples, and 13.
    assert 31 + 13 < replayed.seconds <= 31 + 21 + 19 + 13
    assert replayed.share(small()) == replayed.seconds / 84


def test_a_job_dearer_than_the_best_is_stopped() -> None:
    # At its first evaluation, the job has cost 40 s, more than the base's 31 s, so it is pruned.
    slow = [*ROWS[:7], *job(16, 1.0, [1.2, 1.0, 0.9], 40), *job(16, 2.0, [0.9, 0.5], 40)]
    stopped = replay(build_grid(SPEC, slow), "grid", Point(8), 0)
    assert set(stopped.pruned) == {Point(16, 1.0), Point(16, 2.0)}
    assert stopped.seconds == 31 + 21 + 40 + 40
    assert stopped.choice == Point(8, 2.0)


def test_a_wrong_choice_is_charged_the_grid() -> None:
    assert cost_until_right([0.2, 0.4, 0.3, 0.3], [0.0, 0.04, 0.06, 0.0]) == pytest.approx(0.3 + 1 / 4)
    assert percentile_90([0.0, 0.04, 0.06, 0.0]) == 0.06
    wrong = Replay(seconds=42, trials=2, choice=Point(8, 2.0))
    assert (wrong.excess(small()), wrong.share(small())) == (pytest.approx(21 / 13 - 1), 0.5)
    assert percentile_90([*range(10)]) == 8
