"""Test recorded noise: equal jobs of a grid, their deviations, draws of them, and repeats as they are recorded."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.recorded.draws import in_order
from benchmarks.recorded.grid_table import GridRow, GridSpec, build_grid
from benchmarks.recorded.noise import deviations, equal_jobs, recorded_noise
from benchmarks.recorded.record_repeats import repeat_rows
from benchmarks.recorded.repeats_table import Repeat, Repeats, Setting, names, read, write
from tracking.queries import job_tables


def test_recorded_jobs_are_drawn_in_their_order() -> None:
    drawn = in_order(np.arange(5.0))(np.random.default_rng(3), 4)
    assert [(after - before) % 5 for before, after in pairwise(drawn)] == [1, 1, 1]


def evaluated(size: int, multiplier: float, *seconds: float) -> list[GridRow]:
    """Evaluations every 100 samples, and the end 1 s later."""
    fields = {"compiler": "none", "batch_size": size, "multiplier": multiplier, "seed": 0, "value": 1.0}
    rows = [
        GridRow(**fields, samples=100 * at, billable_seconds=s, ended=False, reached=False)
        for at, s in enumerate(seconds, start=1)
    ]
    return [*rows, GridRow(**{**vars(rows[-1]), "billable_seconds": seconds[-1] + 1, "ended": True})]


def test_jobs_of_one_batch_size_are_equal_up_to_their_last_common_evaluation() -> None:
    spec = GridSpec(metric="eval_loss", higher_is_better=False, target=0.5, samples=300, base_batch_size=8)
    rows = [*evaluated(8, 1.0, 10.0, 20.0, 30.0), *evaluated(8, 2.0, 11.0, 22.0), *evaluated(16, 1.0, 5.0)]
    assert equal_jobs(build_grid(spec, rows, [], "none")) == [[20.0, 22.0], [5.0]]


def test_deviations_have_the_variance_of_the_jobs() -> None:
    # 1, 2 and 3 have variance 1 with 2 degrees of freedom. -1.2247, 0 and 1.2247 have variance 1 if drawn uniformly.
    assert list(deviations([1.0, 2.0, 3.0])) == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)])


REPEAT = Repeat(
    seed=42, started_seconds=0.0, cache_state="off", billable_seconds=10.0, steady_samples_per_second=300.0,
    compile_seconds=0.0, warmup_seconds=1.0, samples=1500.0, eval_loss=1.4, eval_accuracy=0.64,
)  # fmt: skip


def test_repeats_come_back_as_they_were_written(tmp_path: Path) -> None:
    setting = Setting(fields={"experiment": "demo"}, machine="a processor", commit="abc")
    repeats = Repeats(setting=setting, rows=[REPEAT, replace(REPEAT, seed=43, cache_state="warm")])
    assert read("demo", tmp_path) is None
    write("demo", repeats, tmp_path)
    assert (read("demo", tmp_path), names(tmp_path)) == (repeats, ["demo"])


def test_successful_jobs_are_kept_in_the_order_in_which_they_ran(tracked: Any) -> None:
    for repeat, billed in enumerate((10.0, 11.0)):
        tracked.trained("none", repeat, billed, 300.0, metrics={"time/compile_seconds": math.nan})
    tracked.job("none", 2, status="FAILED")
    jobs = job_tables.jobs(tracked.client, tracked.group).to_dict("records")
    first, second = repeat_rows(list(reversed(jobs)), seed=42, since_ms=jobs[0]["start_time_ms"] - 5000.0)
    assert (first.seed, first.started_seconds, first.billable_seconds) == (42, 5.0, 10.0)
    assert (second.seed, second.billable_seconds, second.compile_seconds) == (43, 11.0, 0.0)
    assert second.started_seconds >= 5.0


def test_recorded_noise_can_be_sampled() -> None:
    noise = recorded_noise()
    assert len(noise.seconds) >= 30
    assert 0.001 < noise.spread < 0.5
    assert noise.seconds.mean() == pytest.approx(0.0, abs=1e-9)
