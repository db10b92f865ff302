"""Strategies replayed on grids: the table by hand, and what our strategy pays on grids that were never trained."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from benchmarks.recorded.grid_table import Grid, GridRow, GridSpec, grid, read, write
from benchmarks.recorded.record_grid import arms, job_rows
from benchmarks.recorded.replay import Replayed, any_order, ours, tpe, uncalibrated, varied
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
    """An evaluation every 100 samples, `seconds` apart; the job ends 1 s after its last one."""
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
"""31, 21, never (19) and 13 s."""

CALIBRATION = [Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in ((8, 0.8), (16, 0.96))]


def small() -> Grid:
    return grid(SPEC, ROWS, CALIBRATION, "none")


def test_a_table_tells_what_each_point_costs() -> None:
    found = small()
    assert {point: found.cost(point) for point in found.runs} == {
        Point(8, 1.0): 31,
        Point(8, 2.0): 21,
        Point(16, 1.0): math.inf,
        Point(16, 2.0): 13,
    }
    assert (found.best_cost, found.whole_seconds) == (13, 31 + 21 + 19 + 13)
    assert [point.samples for point in found.run(Point(8, 2.0), 7).curve] == [100, 200]


def test_of_several_seeds_the_mean_counts() -> None:
    found = grid(SPEC, [*ROWS, *job(16, 2.0, [0.9, 0.6, 0.5], 6, seed=1)], CALIBRATION, "none")
    assert found.cost(Point(16, 2.0)) == pytest.approx((13 + 19) / 2)
    assert [len(found.run(Point(16, 2.0), seed).curve) for seed in (0, 1, 2)] == [2, 3, 2]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    write("small", SPEC, ROWS, {"none": CALIBRATION}, tmp_path)
    (compiler,) = found = read("small", tmp_path)
    assert compiler == "none"
    assert found["none"].runs == small().runs
    assert found["none"].search.costs is not None
    assert found["none"].search.costs.step_seconds(16) == pytest.approx(0.96)
    assert found["none"].search.space == small().search.space


def test_what_is_paid_until_the_choice_is_right_and_stays_so() -> None:
    found = small()
    best, other = Point(16, 2.0), Point(8, 1.0)
    told = Replayed(costs=(31, 44, 65, 84), choices=(other, best, best, best), ends_after=3, pruned=())
    assert told.cost_until_right(found) == 44
    back = Replayed(costs=(13, 44, 65, 84), choices=(best, other, best, best), ends_after=None, pruned=())
    assert back.cost_until_right(found) == 65
    never = Replayed(costs=(31, 44), choices=(None, other), ends_after=None, pruned=())
    assert never.cost_until_right(found) == found.whole_seconds


def test_ours_pays_for_its_calibration_and_for_what_stopped_jobs_had_run() -> None:
    found = ours(small(), 0)
    assert (found.costs[0], found.costs[-1]) == (5 + 31, 5 + 31 + 21 + 19 + 13)
    assert (found.choices[0], found.choices[-1]) == (Point(8, 1.0), Point(16, 2.0))
    assert uncalibrated(small(), 0).costs[0] == 31
    # 40 s at its first evaluation are more than the 31 s of the base: it is stopped there.
    slow = [*ROWS[:7], *job(16, 1.0, [1.2, 1.0, 0.9], 40), *job(16, 2.0, [0.9, 0.5], 40)]
    stopped = ours(grid(SPEC, slow, CALIBRATION, "none"), 0)
    assert set(stopped.pruned) == {Point(16, 1.0), Point(16, 2.0)}
    assert stopped.costs[-1] == 5 + 31 + 21 + 40 + 40


def test_sweeps_begin_at_other_batch_sizes_after_other_calibrations() -> None:
    asked = simulated(SHAPES["accelerator"], seeds=1).search
    assert varied(asked, 0) == asked
    others = [varied(asked, seed) for seed in range(1, 21)]
    assert {other.base.batch_size for other in others} == set(asked.space.batch_sizes)
    assert asked.costs is not None
    steps = [other.costs.step_seconds(64) / asked.costs.step_seconds(64) for other in others if other.costs]
    # The intervals are 3 % to either side: a standard deviation of 1.5 %.
    assert 0.005 < statistics.stdev(steps) < 0.03
    assert varied(asked, 3) == varied(asked, 3)


def test_others_pay_for_every_point_once() -> None:
    assert any_order(small(), 0).costs[-1] == small().whole_seconds
    assert tpe(small(), 0).costs[-1] == small().whole_seconds


def test_a_point_that_ran_out_of_memory_is_paid_and_its_like_are_left() -> None:
    too_large = [
        GridRow(compiler="none", batch_size=32, multiplier=multiplier, seed=0, samples=0, value=math.nan,
                billable_seconds=4.0, ended=True, reached=False)
        for multiplier in (1.0, 2.0)
    ]  # fmt: skip
    found = grid(SPEC, [*ROWS, *too_large], CALIBRATION, "none")
    assert found.cost(Point(32)) == math.inf
    told = ours(found, 0)
    assert told.choices[-1] == Point(16, 2.0)
    # One of the two is trained at most: the other is larger than what fits.
    assert len(told.costs) <= 5


def test_a_job_of_the_recording_becomes_its_rows() -> None:
    told = {"status": "FINISHED", "target_reached": 1.0, "samples": 200.0, "cost_billable_seconds": 13.0}
    curve = [
        {"samples": 100, "value": 0.9, "billable_seconds": 6},
        {"samples": 200, "value": 0.5, "billable_seconds": 12},
    ]
    rows = job_rows("none", Point(16, 2.0), told, curve)
    assert rows == [*job(16, 2.0, [0.9, 0.5], 6)]
    lost = {"status": "FAILED", "target_reached": math.nan, "samples": 64.0, "cost_billable_seconds": 4.0}
    (end,) = job_rows("none", Point(16, 2.0), lost, [])
    assert (end.samples, end.ended, end.reached, end.billable_seconds) == (0, True, False, 4.0)


def test_the_arms_of_a_recording_are_the_points_in_their_order() -> None:
    told = arms(Space(batch_sizes=(8, 16), multipliers=(1.0, 2.0)), "none")
    assert told[1] == {"compiler": "none", "batch_size": 8, "learning_rate_multiplier": 2.0}
    assert len(told) == 4


@pytest.mark.parametrize("shape", ["accelerator", "drifting", "accuracy"])
def test_on_simulated_grids_a_quarter_is_enough_and_no_best_point_is_stopped(shape: str) -> None:
    costs, lost = [], 0
    for number in range(3):
        found = simulated(SHAPES[shape], seeds=1, number=number)
        told = ours(found, number)
        costs.append(told.cost_until_right(found) / found.whole_seconds)
        lost += sum(found.cost(point) <= found.best_cost for point in told.pruned)
    assert statistics.median(costs) <= 0.25
    assert lost == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["processor", "lawless"])
def test_on_every_simulated_grid_ours_beats_half_of_tpe(shape: str) -> None:
    grids = [simulated(SHAPES[shape], seeds=1, number=number) for number in range(10)]
    mine = [ours(found, number) for number, found in enumerate(grids)]
    costs = [told.cost_until_right(found) / found.whole_seconds for told, found in zip(mine, grids, strict=True)]
    others = [tpe(found, number).cost_until_right(found) / found.whole_seconds for number, found in enumerate(grids)]
    assert statistics.median(costs) <= 0.25
    assert statistics.median(costs) < 0.5 * statistics.median(others)
    lost = [point for told, found in zip(mine, grids, strict=True) for point in told.pruned
            if found.cost(point) <= found.best_cost]  # fmt: skip
    assert lost == []


def test_where_every_rate_is_far_off_less_is_saved() -> None:
    """The base itself never reaches the target there, and is costs in full: a fixed part that no strategy saves."""
    found = simulated(SHAPES["off by far"], seeds=1)
    assert ours(found, 0).cost_until_right(found) < 0.4 * found.whole_seconds
