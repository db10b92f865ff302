"""Calibration measures steps at each batch size, and handles batch sizes that do not fit in memory."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.job.job_process import TORCHRUN, WATCHED
from training.job.data.padding import Padding
from training.job.estimating.projection import MOST_STEPS, mean_step, plan, steps_to_measure

BUCKETS = {"padding": "buckets", "bucket_lengths": "6,12", "calibration_seconds": 0.02}
MEASURED = {"fits", "step_seconds", "step_seconds_low", "step_seconds_high", "steps", "samples_per_second"}
MEASURED |= {"peak_memory_gib"}

# A step at the second batch size needs 0.8 GB for activations, which do not fit in 1.5 GB beside PyTorch itself.
MANY_ROWS = 30_000
TOO_LARGE = "8,24000,30000"


def measurements(ended: Any) -> dict[int, dict[str, float]]:
    """Return the metrics that the job reported for each batch size."""
    prefix = "calibration/"
    events = ended.events("metric")
    assert all(set(event) == {"event", "seq", "time", "step", "values"} for event in events)
    assert len({event["step"] for event in events}) == len(events)
    return {e["step"]: {name.removeprefix(prefix): value for name, value in e["values"].items()} for e in events}


def test_calibration_measures_each_batch_size_and_trains_nothing(job: Any) -> None:
    ended = job.run(**BUCKETS, calibration_batch_sizes="4,8,16", gradient_accumulation_steps=2)
    sizes, result = measurements(ended), ended.result
    assert list(sizes) == [4, 8, 16]
    for size, values in sizes.items():
        assert set(values) == MEASURED
        assert values["fits"] == 1
        assert 4 <= values["steps"] <= 30
        assert 0 <= values["step_seconds_low"] <= values["step_seconds"] <= values["step_seconds_high"]
        # A step has two batches.
        assert values["samples_per_second"] == pytest.approx(2 * size / values["step_seconds"])
        assert values["peak_memory_gib"] > 0
    assert result["steps"] == 0
    metrics = result["metrics"]
    assert metrics["calibration/largest_batch_size"] == 16
    assert metrics["calibration/memory_limit_gib"] > sizes[16]["peak_memory_gib"]
    assert metrics["calibration/seconds"] > 0.5 * sum(
        each["steps"] * each["step_seconds_low"] for each in sizes.values()
    )
    # All 13 validation rows are evaluated, so the time is not scaled up.
    assert metrics["calibration/eval_seconds"] == pytest.approx(metrics["time/eval_seconds"])
    assert not [name for name in metrics if name.startswith(("eval_", "target/", "throughput/"))]
    assert not (job.folder / "model").exists()


def with_many_rows(job: Any, channel_writer: Any) -> Any:
    ids = [[10 + at % 2, *([20] * 11)] for at in range(MANY_ROWS)]
    channel_writer(job.folder / "train", ids, [at % 2 for at in range(MANY_ROWS)])
    return job


def test_batch_sizes_above_the_first_failure_are_skipped(job: Any, channel_writer: Any) -> None:
    """The allocation really fails, because the process's memory is limited."""
    arguments = {**BUCKETS, "calibration_batch_sizes": TOO_LARGE}
    job.environment["LIMITED"] = "0"
    ended = with_many_rows(job, channel_writer).run([WATCHED], **arguments)
    sizes = measurements(ended)
    assert [sizes[size]["fits"] for size in (8, 24000, 30000)] == [1, 0, 0]
    assert sizes[24000] == sizes[30000] == {"fits": 0, "steps": 0}
    assert ended.result["metrics"]["calibration/largest_batch_size"] == 8
    assert ended.result["metrics"]["calibration/memory_limit_gib"] == pytest.approx(1.8e9 / 2**30)
    assert ended.result["metrics"]["calibration/eval_seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("limited", ["0", "1"])
def test_processes_do_not_wait_for_one_that_runs_out_of_memory(job: Any, channel_writer: Any, limited: str) -> None:
    arguments = {**BUCKETS, "calibration_batch_sizes": "8,14000,15000"}
    job.environment["LIMITED"] = limited
    ended = with_many_rows(job, channel_writer).run([*TORCHRUN, WATCHED], **arguments)
    sizes = measurements(ended)
    assert [values["fits"] for values in sizes.values()] == [1, 0, 0]
    assert sizes[8]["samples_per_second"] == pytest.approx(2 * 8 / sizes[8]["step_seconds"])
    assert ended.result["metrics"]["calibration/largest_batch_size"] == 8


@pytest.mark.slow
def test_compile_time_is_not_part_of_the_step_time(job: Any, tmp_path: Path) -> None:
    job.environment["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "compiled")
    ended = job.run(**BUCKETS, calibration_batch_sizes="4,8", compiler="inductor")
    sizes, metrics = measurements(ended), ended.result["metrics"]
    assert set(sizes[4]) == MEASURED | {"compile_seconds"}
    # One program serves both sizes, and no step includes its compilation.
    assert sizes[4]["compile_seconds"] > 1
    assert sizes[4]["compile_seconds"] > sizes[8]["compile_seconds"]
    assert sizes[4]["step_seconds"] < 0.5 * sizes[4]["compile_seconds"]
    assert metrics["compile/recompiles"] == 0
    assert metrics["time/compile_seconds"] == pytest.approx(sum(each["compile_seconds"] for each in sizes.values()))


def test_plan_of_a_batch_size_by_hand() -> None:
    """Ten rows in batches of 2, two processes with two batches each per step: one complete step of 8 rows."""
    lengths, padding = np.array([3, 4, 5, 6, 7, 8, 9, 9, 2, 12]), Padding("longest", 12)
    planned = plan(np.arange(10), lengths, 2, 4, 2, padding)
    # The batches have 4, 6, 8 and 9 tokens per row. The fifth, with 12, belongs to an incomplete step.
    assert planned.positions.tolist() == [2 * (4 + 6 + 8 + 9)]
    assert planned.largest.tolist() == [8, 9]
    assert [rows.tolist() for rows in planned.batches(0, process=0)] == [[0, 1], [4, 5]]
    assert [rows.tolist() for rows in planned.batches(0, process=1)] == [[2, 3], [6, 7]]
    assert planned.rows_per_step == 8
    short = plan(np.arange(3), np.array([3, 4, 5]), 8, 1, 1, padding)
    assert (short.positions.tolist(), short.rows_per_step) == ([15], 3)


def test_any_number_of_sampled_steps_is_spread_evenly() -> None:
    """The positions of 100 steps are 0 to 99 in random order. The sample must cover the whole range."""
    positions = np.random.default_rng(1).permutation(100)
    planned = plan(np.arange(100), positions, 1, 1, 1, Padding("longest", 100))
    sample = positions[list(islice(planned.sample(), 30))]
    # The middle, then 0.5 + 0.618 - 1 and so on, as fractions of the range.
    assert sample[:3].tolist() == [50, 11, 73]
    for count in (3, 8, 30):
        distances = np.diff(np.sort([0, *sample[:count], 99]))
        assert distances.max() <= 99 * 2 / count


def test_number_of_steps_to_measure() -> None:
    # 20 steps of 0.1 s fill 2 s; fewer than four steps; more than thirty; steps without a measurable time.
    firsts = ([0.1] * 4, [4.0, 5.0, 6.0, 5.0], [0.01] * 4, [0.0] * 4)
    assert [steps_to_measure(first, 2.0) for first in firsts] == [20, 4, MOST_STEPS, MOST_STEPS]


def test_mean_step_and_interval_by_hand() -> None:
    # A step takes 0.1 s plus 1 s per 100 positions. The mean of 250 positions, not the measured 200, takes 2.6 s.
    estimate = mean_step([1.1, 2.1, 3.1], np.array([100, 200, 300]), 250.0)
    assert estimate == pytest.approx((2.6, 2.6, 2.6))
    # Equally long steps: the mean of 1, 2 and 3 s, plus or minus 4.303 (two degrees of freedom) times sqrt(1 / 3).
    estimate = mean_step([1.0, 2.0, 3.0], np.array([8, 8, 8]), 8.0)
    assert estimate == pytest.approx((2.0, 0.0, 2.0 + 4.303 * (1 / 3) ** 0.5))
    # 1 s per position, with deviations of 0.1 s at the ends and -0.2 s in the middle: the squares sum to 0.06, with one
    # degree of freedom.
    estimate = mean_step([1.1, 1.8, 3.1], np.array([1, 2, 3]), 2.0)
    assert estimate.seconds == pytest.approx(2.0)
    assert estimate.high - estimate.seconds == pytest.approx(12.706 * (0.06 / 3) ** 0.5)
