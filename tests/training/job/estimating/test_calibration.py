"""A calibration: a few steps at each batch size, and what does not fit."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from data.padding import Padding
from measuring.memory import free_bytes
from measuring.step_sample import MOST_STEPS, mean_step, plan, steps_to_measure
from tests.conftest import ROOT
from tests.support.job.job_process import TORCHRUN

LIMITED = str(ROOT / "tests" / "support" / "job" / "limited.py")

BUCKETS = {"padding": "buckets", "bucket_lengths": "6,12", "calibration_seconds": 0.02}
MEASURED = {"fits", "step_seconds", "step_seconds_low", "step_seconds_high", "steps", "samples_per_second"}
MEASURED |= {"peak_memory_gib"}

# More than fits in 1.5 GB beside PyTorch itself: a step of the second size takes 0.8 GB of activations.
MANY_ROWS = 30_000
TOO_LARGE = "8,24000,30000"


def told(ended: Any) -> dict[int, dict[str, float]]:
    """Return what was told of each batch size."""
    prefix = "calibration/"
    events = ended.events("metric")
    assert all(set(event) == {"event", "seq", "time", "step", "values"} for event in events)
    assert len({event["step"] for event in events}) == len(events)
    return {e["step"]: {name.removeprefix(prefix): value for name, value in e["values"].items()} for e in events}


def test_each_batch_size_is_measured_and_nothing_is_trained(job: Any) -> None:
    ended = job.run(**BUCKETS, calibration_batch_sizes="4,8,16", gradient_accumulation_steps=2)
    found, result = told(ended), ended.result
    assert list(found) == [4, 8, 16]
    for size, values in found.items():
        assert set(values) == MEASURED
        assert values["fits"] == 1
        assert 4 <= values["steps"] <= 30
        assert 0 <= values["step_seconds_low"] <= values["step_seconds"] <= values["step_seconds_high"]
        # A step takes two batches.
        assert values["samples_per_second"] == pytest.approx(2 * size / values["step_seconds"])
        assert values["peak_memory_gib"] > 0
    assert result["steps"] == 0
    metrics = result["metrics"]
    assert metrics["calibration/largest_batch_size"] == 16
    assert metrics["calibration/seconds"] > sum(each["steps"] * each["step_seconds_low"] for each in found.values())
    # All 13 validation rows are evaluated, so it is the phase's own time.
    assert metrics["calibration/eval_seconds"] == pytest.approx(metrics["time/eval_seconds"])
    assert not [name for name in metrics if name.startswith(("eval_", "target/", "throughput/"))]
    assert not (job.folder / "model").exists()


def with_many_rows(job: Any, channel_writer: Any) -> Any:
    ids = [[10 + at % 2, *([20] * 11)] for at in range(MANY_ROWS)]
    channel_writer(job.folder / "train", ids, [at % 2 for at in range(MANY_ROWS)])
    return job


def test_what_does_not_fit_is_told_and_larger_ones_are_left_out(job: Any, channel_writer: Any) -> None:
    """The allocator really fails: the process may have 1.5 GB."""
    arguments = {**BUCKETS, "calibration_batch_sizes": TOO_LARGE}
    ended = with_many_rows(job, channel_writer).run([LIMITED, "0"], **arguments)
    found = told(ended)
    assert [found[size]["fits"] for size in (8, 24000, 30000)] == [1, 0, 0]
    assert found[24000] == found[30000] == {"fits": 0, "steps": 0}
    assert ended.result["metrics"]["calibration/largest_batch_size"] == 8
    assert ended.result["metrics"]["calibration/eval_seconds"] > 0


@pytest.mark.slow
def test_processes_measure_together(job: Any) -> None:
    ended = job.run(TORCHRUN, **BUCKETS, calibration_batch_sizes="4,8")
    for size, values in told(ended).items():
        assert values["fits"] == 1
        assert values["samples_per_second"] == pytest.approx(2 * size / values["step_seconds"])
    assert list(told(ended)) == [4, 8]
    assert ended.result["metrics"]["calibration/largest_batch_size"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("limited", ["0", "1"])
def test_a_process_that_runs_out_leaves_none_waiting(job: Any, channel_writer: Any, limited: str) -> None:
    arguments = {**BUCKETS, "calibration_batch_sizes": "8,14000,15000"}
    ended = with_many_rows(job, channel_writer).run([*TORCHRUN, LIMITED, limited], **arguments)
    assert [values["fits"] for values in told(ended).values()] == [1, 0, 0]
    assert ended.result["metrics"]["calibration/largest_batch_size"] == 8


@pytest.mark.slow
def test_compilation_is_told_apart(job: Any) -> None:
    ended = job.run(**BUCKETS, calibration_batch_sizes="4,8", compiler="inductor")
    found, metrics = told(ended), ended.result["metrics"]
    assert set(found[4]) == MEASURED | {"compile_seconds"}
    # One program serves both sizes; neither's steps hold any of it.
    assert found[4]["compile_seconds"] > 1 > found[8]["compile_seconds"]
    assert found[4]["step_seconds_high"] < 1
    assert metrics["compile/recompiles"] == 0
    assert metrics["time/compile_seconds"] == pytest.approx(sum(each["compile_seconds"] for each in found.values()))


def test_the_plan_of_a_batch_size() -> None:
    """Ten rows in batches of 2, two processes, two batches of each a step: one whole step of 8 rows."""
    lengths, padding = np.array([3, 4, 5, 6, 7, 8, 9, 9, 2, 12]), Padding("longest", 12)
    planned = plan(np.arange(10), lengths, 2, 4, 2, padding)
    # Batches of 4, 6, 8 and 9 tokens; the fifth, of 12, belongs to an incomplete step.
    assert planned.positions.tolist() == [2 * (4 + 6 + 8 + 9)]
    assert planned.largest.tolist() == [8, 9]
    assert [rows.tolist() for rows in planned.batches(0, process=0)] == [[0, 1], [4, 5]]
    assert [rows.tolist() for rows in planned.batches(0, process=1)] == [[2, 3], [6, 7]]
    assert planned.rows_a_step == 8


def test_data_of_less_than_a_step_is_one_step() -> None:
    planned = plan(np.arange(3), np.array([3, 4, 5]), 8, 1, 1, Padding("longest", 12))
    assert planned.positions.tolist() == [15]
    assert planned.rows_a_step == 3


def test_the_sample_is_spread_however_many_are_taken() -> None:
    """Of 100 steps whose positions are 0 to 99 in some order: no part of the range is left out."""
    positions = np.random.default_rng(1).permutation(100)
    planned = plan(np.arange(100), positions, 1, 1, 1, Padding("longest", 100))
    sample = positions[list(islice(planned.sample(), 30))]
    # The middle, then 0.5 + 0.618 - 1 and so on, as parts of the range.
    assert sample[:3].tolist() == [50, 11, 73]
    for count in (3, 8, 30):
        gaps = np.diff(np.sort([0, *sample[:count], 99]))
        assert gaps.max() <= 99 * 2 / count


@pytest.mark.parametrize(
    ("first", "wanted", "steps"),
    # 2 s of 0.1 s; fewer than four; more than thirty; no time at all.
    [([0.1] * 4, 2.0, 20), ([4.0, 5.0, 6.0, 5.0], 2.0, 4), ([0.01] * 4, 2.0, 30), ([0.0] * 4, 2.0, MOST_STEPS)],
)
def test_how_many_steps_are_measured(first: list[float], wanted: float, steps: int) -> None:
    assert steps_to_measure(first, wanted) == steps


def test_the_mean_step_without_noise() -> None:
    """0.1 s and 1 s for each 100 positions: a mean of 250 positions takes 2.6 s, though those measured have 200."""
    found = mean_step([1.1, 2.1, 3.1], np.array([100, 200, 300]), 250.0)
    assert found == pytest.approx((2.6, 2.6, 2.6))


def test_the_mean_step_and_its_interval_by_hand() -> None:
    """Equal steps: the mean of 1, 2 and 3 s, off by 4.303 (two degrees of freedom) times the root of 1 / 3."""
    found = mean_step([1.0, 2.0, 3.0], np.array([8, 8, 8]), 8.0)
    assert found == pytest.approx((2.0, 0.0, 2.0 + 4.303 * (1 / 3) ** 0.5))
    # On a line of 1 s a position, off by +-0.1 s at the ends and -0.2 s in the middle: squares of 0.06 s, one degree.
    found = mean_step([1.1, 1.8, 3.1], np.array([1, 2, 3]), 2.0)
    assert found.seconds == pytest.approx(2.0)
    assert found.high - found.seconds == pytest.approx(12.706 * (0.06 / 3) ** 0.5)


def test_a_mean_step_is_found_in_most_intervals() -> None:
    """Of 1,000 samples of 6 steps with independent noise, about 950 intervals hold the true mean."""
    random, held = np.random.default_rng(5), 0
    for _ in range(1000):
        positions = random.integers(100, 900, 6)
        found = mean_step(0.2 + 0.001 * positions + random.normal(0, 0.02, 6), positions, 500.0)
        held += found.low <= 0.7 <= found.high
    assert 930 <= held <= 970


def test_the_free_memory_of_this_machine_is_known() -> None:
    free = free_bytes()
    assert free is not None
    assert 0 < free < 2**50
