"""The verdict tried on simulated comparisons, and what they are made of: `benchmarks/bench_verdict.py` in small."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.bench_verdict import in_order, is_cheaper, is_decided, normal, real_row, with_drift, with_spells
from benchmarks.recorded.grid_table import GridRow, GridSpec, build_grid
from benchmarks.recorded.noise import deviations, equal_jobs, recorded_noise
from benchmarks.recorded.record_repeats import repeat_rows
from benchmarks.recorded.repeats_table import Repeat, Repeats, Setting, names, read, write
from benchmarks.recorded.simulated_comparisons import Arm, Scenario, draw_jobs, outcomes, simulate
from tracking.queries import job_tables

COURSE = Scenario(seconds=normal(0.04), quality=normal(0.005), repeats=5)
SILENT = replace(COURSE, seconds=normal(0.0), quality=normal(0.0))
COMPARISONS = 400


def share(course: Scenario, is_said: Any) -> float:
    return sum(map(is_said, outcomes(course, COMPARISONS, seed=1))) / COMPARISONS


@pytest.mark.parametrize(
    "course",
    [
        COURSE,
        replace(COURSE, repeats=3),
        replace(COURSE, seconds=with_spells(normal(0.04))),
        replace(COURSE, seconds=with_drift(normal(0.04))),
        replace(COURSE, whole_seconds=True),
        replace(COURSE, arms=(Arm(cold_start=True), Arm())),
    ],
    ids=["noise", "three repeats", "spells", "drift", "whole seconds", "cold start"],
)
def test_a_setting_is_rarely_cheaper_or_dearer_than_itself(course: Scenario) -> None:
    # Of 400 at 5 %, the share's standard error is sqrt(0.05 * 0.95 / 400) = 0.011: 0.08 is 2.7 of them.
    assert share(course, is_decided) <= 0.08


def test_a_gain_of_ten_percent_is_found() -> None:
    assert share(replace(COURSE, arms=(Arm(), Arm(ratio=0.9))), is_cheaper) >= 0.8


def test_a_drift_misleads_where_the_arms_do_not_take_turns() -> None:
    drifting = replace(COURSE, seconds=with_drift(normal(0.01)))
    assert share(replace(drifting, alternates=False), is_decided) >= 0.9


def test_jobs_without_noise_are_told_as_they_are() -> None:
    arms = (Arm(), Arm(ratio=0.9, cold_start=True))
    comparison = simulate(replace(SILENT, arms=arms, repeats=3), np.random.default_rng(1))
    [contrast] = comparison.contrasts
    assert contrast.verdict.outcome == "cheaper"
    assert contrast.verdict.ratio is not None
    assert contrast.verdict.ratio.estimate == pytest.approx(0.9)
    assert (contrast.verdict.ratio.n_arm, contrast.verdict.ratio.n_baseline) == (2, 3)
    # 40 s times 0.9, and 25 s of compiling.
    assert [job.number("cost_billable_seconds") for job in contrast.arm.other_cache_states["cold"]] == [
        pytest.approx(61.0)
    ]


def test_jobs_run_repeat_by_repeat_and_drift_as_they_run() -> None:
    course = replace(SILENT, seconds=with_drift(normal(0.0), each=math.log(2)), job_seconds=1.0, repeats=2)
    told = draw_jobs(course, np.random.default_rng(1))
    assert list(zip(told["arm"], told["repeat"], strict=True)) == [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")]
    assert list(told["cost_billable_seconds"]) == pytest.approx([1, 2, 4, 8])
    behind = draw_jobs(replace(course, alternates=False, whole_seconds=True), np.random.default_rng(1))
    assert list(behind["arm"]) == ["0", "0", "1", "1"]


def test_recorded_jobs_are_drawn_in_their_order() -> None:
    drawn = in_order(np.arange(5.0))(np.random.default_rng(3), 4)
    assert [(after - before) % 5 for before, after in pairwise(drawn)] == [1, 1, 1]


def test_a_simulated_table_is_as_the_tracking_server_tells_it(tracked: Any) -> None:
    tracked.trained("0", 0, 40.0, baseline=True)
    real, made = job_tables.jobs(tracked.client, tracked.group), draw_jobs(COURSE, np.random.default_rng(1))
    assert list(made.columns)[:-1] == [*job_tables.TEXT_COLUMNS, *job_tables.NUMBER_COLUMNS]
    assert made.dtypes.to_dict() == real.dtypes[made.columns].to_dict()


def evaluated(size: int, multiplier: float, *seconds: float) -> list[GridRow]:
    """Evaluations every 100 samples, and the end 1 s later."""
    told = {"compiler": "none", "batch_size": size, "multiplier": multiplier, "seed": 0, "value": 1.0}
    rows = [
        GridRow(**told, samples=100 * at, billable_seconds=s, ended=False, reached=False)
        for at, s in enumerate(seconds, start=1)
    ]
    return [*rows, GridRow(**{**vars(rows[-1]), "billable_seconds": seconds[-1] + 1, "ended": True})]


def test_jobs_of_one_batch_size_are_equal_up_to_their_last_common_evaluation() -> None:
    asked = GridSpec(metric="eval_loss", higher_is_better=False, target=0.5, samples=300, base_batch_size=8)
    rows = [*evaluated(8, 1.0, 10.0, 20.0, 30.0), *evaluated(8, 2.0, 11.0, 22.0), *evaluated(16, 1.0, 5.0)]
    assert equal_jobs(build_grid(asked, rows, [], "none")) == [[20.0, 22.0], [5.0]]


def test_deviations_have_the_variance_of_the_jobs() -> None:
    # 1, 2, 3: variance 1 with 2 degrees of freedom; drawn with equal chances, -1.2247, 0 and 1.2247 have that of 1.
    assert list(deviations([1.0, 2.0, 3.0])) == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)])


REPEAT = Repeat(
    seed=42, started_seconds=0.0, cache_state="off", billable_seconds=10.0, steady_samples_per_second=300.0,
    compile_seconds=0.0, warmup_seconds=1.0, samples=1500.0, eval_loss=1.4, eval_accuracy=0.64,
)  # fmt: skip


def test_repeats_come_back_as_they_were_written(tmp_path: Path) -> None:
    setting = Setting(fields={"experiment": "demo"}, machine="a processor", commit="abc")
    kept = Repeats(setting=setting, rows=[REPEAT, replace(REPEAT, seed=43, cache_state="warm")])
    assert read("demo", tmp_path) is None
    write("demo", kept, tmp_path)
    assert (read("demo", tmp_path), names(tmp_path)) == (kept, ["demo"])


def test_successful_jobs_are_kept_in_the_order_in_which_they_ran(tracked: Any) -> None:
    for repeat, paid in enumerate((10.0, 11.0)):
        tracked.trained("none", repeat, paid, 300.0, metrics={"time/compile_seconds": math.nan})
    tracked.job("none", 2, status="FAILED")
    told = job_tables.jobs(tracked.client, tracked.group).to_dict("records")
    first, second = repeat_rows(list(reversed(told)), seed=42, since_ms=told[0]["start_time_ms"] - 5000.0)
    assert (first.seed, first.started_seconds, first.billable_seconds) == (42, 5.0, 10.0)
    assert (second.seed, second.billable_seconds, second.compile_seconds) == (43, 11.0, 0.0)
    assert second.started_seconds >= 5.0


def test_recorded_jobs_are_dealt_to_two_sides_in_turn() -> None:
    # The first six take 10 and 20 s in turn, the other six all the like: one of two comparisons tells a difference.
    seconds = [10.0, 20.0, 10.1, 20.2, 10.2, 20.4, 10.1, 10.2, 10.2, 10.3, 10.3, 10.1, 99.0]
    row = real_row("demo", [replace(REPEAT, billable_seconds=each) for each in seconds])
    assert (row.value, row.unit) == (1, "of 2")


def test_what_is_recorded_can_be_drawn_from() -> None:
    noise = recorded_noise()
    assert len(noise.seconds) >= 30
    assert 0.001 < noise.spread < 0.5
    assert noise.seconds.mean() == pytest.approx(0.0, abs=1e-9)
