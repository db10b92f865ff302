"""Sweeps replayed on a table worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.bench_sweep import Score
from benchmarks.recorded.grid_table import Grid, GridRow, GridSpec, build_grid, read, write
from benchmarks.recorded.record_grid import arms, job_rows
from benchmarks.recorded.replay import Replay, replay, starts
from sweeps.cost_model.costs import Measurement
from sweeps.space.grid import Point, Space

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


def test_the_cost_of_several_seeds_is_their_mean() -> None:
    recorded = build_grid(SPEC, [*ROWS, *job(16, 2.0, [0.9, 0.6, 0.5], 6, seed=1)], CALIBRATION, "none")
    assert recorded.cost(Point(16, 2.0)) == pytest.approx((13 + 19) / 2)


def test_a_written_table_is_read_unchanged(tmp_path: Path) -> None:
    write("small", SPEC, ROWS, {"none": CALIBRATION}, tmp_path)
    (compiler,) = recorded = read("small", tmp_path)
    assert compiler == "none"
    assert recorded["none"].runs == small().runs
    assert recorded["none"].search.costs is not None
    assert recorded["none"].search.costs.step_seconds(16) == pytest.approx(0.96)
    assert recorded["none"].search.space == small().search.space


def test_a_failed_seed_is_part_of_the_cost_of_the_successful_ones() -> None:
    missed = job(16, 2.0, [0.9, 0.8, 0.7], 6, seed=1)
    recorded = build_grid(SPEC, [*ROWS, *missed], CALIBRATION, "none")
    assert recorded.cost(Point(16, 2.0)) == 13 + 19


def test_a_trial_draws_one_of_its_points_seeds() -> None:
    recorded = build_grid(SPEC, [*ROWS, *job(16, 2.0, [0.9, 0.6, 0.5], 6, seed=1)], CALIBRATION, "none")
    drawn = [len(recorded.draw(Point(16, 2.0), seed).curve) for seed in range(200)]
    assert set(drawn) == {2, 3}
    assert 60 < drawn.count(2) < 140
    assert recorded.draw(Point(16, 2.0), 5) == recorded.draw(Point(16, 2.0), 5)


@pytest.mark.parametrize("start", [Point(8), Point(16)])
def test_a_sweep_pays_for_all_trials_until_its_end(start: Point) -> None:
    # Four points are too few to end early: all are trained. The best one's cost decides which jobs are stopped.
    replayed = replay(small(), "grid", start, 0, is_calibrated=False)
    assert (replayed.choice, replayed.trials) == (Point(16, 2.0), 4)
    assert replayed.excess(small()) == 0
    # From batch 8: 31, 21, then 16 at 18 s with 0.9 after 300 samples, and 13.
    assert 31 + 13 < replayed.seconds <= 31 + 21 + 19 + 13
    assert replayed.share(small()) == replayed.seconds / 84
    calibrated = replay(small(), "grid", start, 0, is_calibrated=True)
    assert calibrated.seconds >= 5 + 31 + 13


def test_a_job_dearer_than_the_best_is_stopped() -> None:
    # At its first evaluation, the job has cost 40 s, more than the base's 31 s, so it is pruned.
    slow = [*ROWS[:7], *job(16, 1.0, [1.2, 1.0, 0.9], 40), *job(16, 2.0, [0.9, 0.5], 40)]
    stopped = replay(build_grid(SPEC, slow, CALIBRATION, "none"), "grid", Point(8), 0, is_calibrated=False)
    assert set(stopped.pruned) == {Point(16, 1.0), Point(16, 2.0)}
    assert stopped.seconds == 31 + 21 + 40 + 40
    assert stopped.choice == Point(8, 2.0)


def test_the_excess_of_a_wrong_choice() -> None:
    wrong = Replay(seconds=42, trials=2, choice=Point(8, 2.0))
    assert wrong.excess(small()) == pytest.approx(21 / 13 - 1)
    assert wrong.share(small()) == 0.5
    assert Replay(seconds=42, trials=2, choice=None).excess(small()) == math.inf


def test_a_sweep_may_start_from_every_batch_size() -> None:
    assert starts(small()) == (Point(8), Point(16))


def test_a_score_charges_the_grid_for_wrong_choices() -> None:
    scored = Score(shares=[0.2, 0.4, 0.3, 0.3], excesses=[0.0, 0.04, 0.06, 0.0])
    assert scored.share == pytest.approx(0.3)
    assert scored.share_until_right == pytest.approx(0.3 + 1 / 4)
    assert scored.excess == pytest.approx(0.025)
    assert scored.excess_90 == 0.06
    assert Score(shares=[1.0] * 10, excesses=[*range(10)]).excess_90 == 8


def test_larger_batches_are_skipped_after_out_of_memory() -> None:
    too_large = [
        GridRow(compiler="none", batch_size=32, multiplier=multiplier, seed=0, samples=0, value=math.nan,
                billable_seconds=4.0, ended=True, reached=False)
        for multiplier in (1.0, 2.0)
    ]  # fmt: skip
    recorded = build_grid(SPEC, [*ROWS, *too_large], CALIBRATION, "none")
    assert recorded.cost(Point(32)) == math.inf
    replayed = replay(recorded, "grid", Point(8), 0, is_calibrated=False)
    assert replayed.choice == Point(16, 2.0)
    # Only one of the two is trained, because the other does not fit either.
    assert replayed.trials == 5


def test_a_job_is_recorded_as_its_evaluations_and_its_end() -> None:
    completed = {"status": "FINISHED", "target_reached": 1.0, "samples": 200.0, "cost_billable_seconds": 13.0}
    curve = [
        {"samples": 100, "value": 0.9, "billable_seconds": 6},
        {"samples": 200, "value": 0.5, "billable_seconds": 12},
    ]
    rows = job_rows("none", Point(16, 2.0), 0, completed, curve)
    assert rows == [*job(16, 2.0, [0.9, 0.5], 6)]
    failed = {"status": "FAILED", "target_reached": math.nan, "samples": 64.0, "cost_billable_seconds": 4.0}
    (end,) = job_rows("none", Point(16, 2.0), 2, failed, [])
    assert (end.seed, end.samples, end.ended, end.reached, end.billable_seconds) == (2, 0, True, False, 4.0)


def test_the_arms_of_a_recording_are_the_points_in_order() -> None:
    fields = arms(Space(batch_sizes=(8, 16), multipliers=(1.0, 2.0)), "none")
    assert fields[1] == {"compiler": "none", "batch_size": 8, "learning_rate_multiplier": 2.0}
    assert len(fields) == 4
