"""Strategies replayed on grids: a table worked out by hand, and the cost of our strategy on simulated grids."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from benchmarks.recorded.grid_table import Grid, GridRow, GridSpec, build_grid, read, write
from benchmarks.recorded.record_grid import arms, job_rows
from benchmarks.recorded.replay import Replay, any_order, ours, tpe, uncalibrated, vary_start
from sweeps.cost_model.costs import Measurement
from sweeps.space.grid import Point, Space
from tests.support.sweeps.simulated import SHAPES, simulated

SPEC = GridSpec(
    metric="eval_loss",
    higher_is_better=False,
    target=0.5,
    samples=300,
    base_batch_size=8,
    eval_samples=100,
    calibration_seconds={"none": 5.0},
)


def job(size: int, multiplier: float, values: list[float], seconds: float, seed: int = 0) -> list[GridRow]:
    """Return rows of one evaluation every 100 samples and `seconds`, and of the job's end 1 s after the last."""
    rows = [
        GridRow(compiler="none", batch_size=size, multiplier=multiplier, seed=seed, samples=100 * at, value=value,
                billable_seconds=seconds * at, ended=False, reached=value <= 0.5)
        for at, value in enumerate(values, start=1)
    ]  # fmt: skip
    last = rows[-1]
    end = {**vars(last), "billable_seconds": last.billable_seconds + 1, "ended": True}
    return [*rows, GridRow(**end)]


ROWS = [
    *job(8, 1.0, [1.0, 0.8, 0.5], 10),
    *job(8, 2.0, [0.8, 0.5], 10),
    *job(16, 1.0, [1.2, 1.0, 0.9], 6),
    *job(16, 2.0, [0.9, 0.5], 6),
]
"""The jobs take 31, 21, 19 and 13 s. The third does not reach the target."""

CALIBRATION = [Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in ((8, 0.8), (16, 0.96))]


def small() -> Grid:
    return build_grid(SPEC, ROWS, CALIBRATION, "none")


def test_a_grid_returns_the_cost_of_each_point() -> None:
    recorded = small()
    assert {point: recorded.cost(point) for point in recorded.runs} == {
        Point(8, 1.0): 31,
        Point(8, 2.0): 21,
        Point(16, 1.0): math.inf,
        Point(16, 2.0): 13,
    }
    assert (recorded.best_cost, recorded.full_grid_seconds) == (13, 31 + 21 + 19 + 13)
    assert [point.samples for point in recorded.run(Point(8, 2.0), 7).curve] == [100, 200]


def test_the_cost_of_several_seeds_is_their_mean() -> None:
    recorded = build_grid(SPEC, [*ROWS, *job(16, 2.0, [0.9, 0.6, 0.5], 6, seed=1)], CALIBRATION, "none")
    assert recorded.cost(Point(16, 2.0)) == pytest.approx((13 + 19) / 2)
    assert [len(recorded.run(Point(16, 2.0), seed).curve) for seed in (0, 1, 2)] == [2, 3, 2]


def test_a_written_table_is_read_unchanged(tmp_path: Path) -> None:
    write("small", SPEC, ROWS, {"none": CALIBRATION}, tmp_path)
    (compiler,) = recorded = read("small", tmp_path)
    assert compiler == "none"
    assert recorded["none"].runs == small().runs
    assert recorded["none"].search.costs is not None
    assert recorded["none"].search.costs.step_seconds(16) == pytest.approx(0.96)
    assert recorded["none"].search.space == small().search.space


def test_the_cost_counts_until_the_choice_stays_right() -> None:
    recorded = small()
    best, other = Point(16, 2.0), Point(8, 1.0)
    replay = Replay(costs=(31, 44, 65, 84), choices=(other, best, best, best), ends_after=3, pruned=())
    assert replay.cost_until_right(recorded) == 44
    wrong_again = Replay(costs=(13, 44, 65, 84), choices=(best, other, best, best), ends_after=None, pruned=())
    assert wrong_again.cost_until_right(recorded) == 65
    never = Replay(costs=(31, 44), choices=(None, other), ends_after=None, pruned=())
    assert never.cost_until_right(recorded) == recorded.full_grid_seconds


def test_our_cost_includes_calibration_and_pruned_jobs() -> None:
    replay = ours(small(), 0)
    assert (replay.costs[0], replay.costs[-1]) == (5 + 31, 5 + 31 + 21 + 19 + 13)
    assert (replay.choices[0], replay.choices[-1]) == (Point(8, 1.0), Point(16, 2.0))
    assert uncalibrated(small(), 0).costs[0] == 31
    # At its first evaluation, the job has cost 40 s, more than the base's 31 s, so it is pruned.
    slow = [*ROWS[:7], *job(16, 1.0, [1.2, 1.0, 0.9], 40), *job(16, 2.0, [0.9, 0.5], 40)]
    stopped = ours(build_grid(SPEC, slow, CALIBRATION, "none"), 0)
    assert set(stopped.pruned) == {Point(16, 1.0), Point(16, 2.0)}
    assert stopped.costs[-1] == 5 + 31 + 21 + 40 + 40


def test_seeds_vary_the_starting_batch_size_and_the_calibration() -> None:
    search = simulated(SHAPES["accelerator"], seeds=1).search
    assert vary_start(search, 0) == search
    others = [vary_start(search, seed) for seed in range(1, 21)]
    assert {other.base.batch_size for other in others} == set(search.space.batch_sizes)
    assert search.costs is not None
    steps = [other.costs.step_seconds(64) / search.costs.step_seconds(64) for other in others if other.costs]
    # The intervals extend 3 % to either side, which is a standard deviation of 1.5 %.
    assert 0.005 < statistics.stdev(steps) < 0.03
    assert vary_start(search, 3) == vary_start(search, 3)


def test_other_strategies_are_charged_once_for_each_point() -> None:
    assert any_order(small(), 0).costs[-1] == small().full_grid_seconds
    assert tpe(small(), 0).costs[-1] == small().full_grid_seconds


def test_larger_batches_are_skipped_after_out_of_memory() -> None:
    too_large = [
        GridRow(compiler="none", batch_size=32, multiplier=multiplier, seed=0, samples=0, value=math.nan,
                billable_seconds=4.0, ended=True, reached=False)
        for multiplier in (1.0, 2.0)
    ]  # fmt: skip
    recorded = build_grid(SPEC, [*ROWS, *too_large], CALIBRATION, "none")
    assert recorded.cost(Point(32)) == math.inf
    replay = ours(recorded, 0)
    assert replay.choices[-1] == Point(16, 2.0)
    # At most one of the two is trained, because the other does not fit either.
    assert len(replay.costs) <= 5


def test_a_job_is_recorded_as_its_evaluations_and_its_end() -> None:
    completed = {"status": "FINISHED", "target_reached": 1.0, "samples": 200.0, "cost_billable_seconds": 13.0}
    curve = [
        {"samples": 100, "value": 0.9, "billable_seconds": 6},
        {"samples": 200, "value": 0.5, "billable_seconds": 12},
    ]
    rows = job_rows("none", Point(16, 2.0), completed, curve)
    assert rows == [*job(16, 2.0, [0.9, 0.5], 6)]
    failed = {"status": "FAILED", "target_reached": math.nan, "samples": 64.0, "cost_billable_seconds": 4.0}
    (end,) = job_rows("none", Point(16, 2.0), failed, [])
    assert (end.samples, end.ended, end.reached, end.billable_seconds) == (0, True, False, 4.0)


def test_the_arms_of_a_recording_are_the_points_in_order() -> None:
    fields = arms(Space(batch_sizes=(8, 16), multipliers=(1.0, 2.0)), "none")
    assert fields[1] == {"compiler": "none", "batch_size": 8, "learning_rate_multiplier": 2.0}
    assert len(fields) == 4


@pytest.mark.parametrize("shape", ["accelerator", "drifting", "accuracy"])
def test_our_strategy_costs_at_most_a_quarter_of_simulated_grids(shape: str) -> None:
    costs, lost = [], 0
    for number in range(3):
        recorded = simulated(SHAPES[shape], seeds=1, number=number)
        replay = ours(recorded, number)
        costs.append(replay.cost_until_right(recorded) / recorded.full_grid_seconds)
        lost += sum(recorded.cost(point) <= recorded.best_cost for point in replay.pruned)
    assert statistics.median(costs) <= 0.25
    assert lost == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["processor", "lawless"])
def test_our_strategy_costs_less_than_half_of_tpe_on_simulated_grids(shape: str) -> None:
    grids = [simulated(SHAPES[shape], seeds=1, number=number) for number in range(10)]
    mine = [ours(recorded, number) for number, recorded in enumerate(grids)]
    costs = [run.cost_until_right(grid) / grid.full_grid_seconds for run, grid in zip(mine, grids, strict=True)]
    others = [tpe(grid, number).cost_until_right(grid) / grid.full_grid_seconds for number, grid in enumerate(grids)]
    assert statistics.median(costs) <= 0.25
    assert statistics.median(costs) < 0.5 * statistics.median(others)
    lost = [point for replay, recorded in zip(mine, grids, strict=True) for point in replay.pruned
            if recorded.cost(point) <= recorded.best_cost]  # fmt: skip
    assert lost == []


def test_savings_shrink_when_every_learning_rate_is_far_off() -> None:
    """The base itself misses the target and is paid in full: a fixed cost that no strategy avoids."""
    recorded = simulated(SHAPES["off by far"], seeds=1)
    assert ours(recorded, 0).cost_until_right(recorded) < 0.4 * recorded.full_grid_seconds
