"""Test the verdict on simulated comparisons, and the simulation: a small version of `benchmarks/bench_verdict.py`."""

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

SCENARIO = Scenario(seconds=normal(0.04), quality=normal(0.005), repeats=5)
NOISELESS = replace(SCENARIO, seconds=normal(0.0), quality=normal(0.0))
COMPARISONS = 400


def share(scenario: Scenario, predicate: Any) -> float:
    return sum(map(predicate, outcomes(scenario, COMPARISONS, seed=1))) / COMPARISONS


@pytest.mark.parametrize(
    "scenario",
    [
        SCENARIO,
        replace(SCENARIO, repeats=3),
        replace(SCENARIO, seconds=with_spells(normal(0.04))),
        replace(SCENARIO, seconds=with_drift(normal(0.04))),
        replace(SCENARIO, whole_seconds=True),
        replace(SCENARIO, arms=(Arm(cold_start=True), Arm())),
    ],
    ids=["noise", "three repeats", "spells", "drift", "whole seconds", "cold start"],
)
def test_a_setting_is_rarely_decided_against_itself(scenario: Scenario) -> None:
    # With 400 comparisons and a share of 5 %, the standard error is sqrt(0.05 * 0.95 / 400) = 0.011. 0.08 is 2.7
    # standard errors above 5 %.
    assert share(scenario, is_decided) <= 0.08


def test_a_gain_of_ten_percent_is_found() -> None:
    assert share(replace(SCENARIO, arms=(Arm(), Arm(ratio=0.9))), is_cheaper) >= 0.8


def test_a_drift_misleads_if_the_arms_do_not_take_turns() -> None:
    drifting = replace(SCENARIO, seconds=with_drift(normal(0.01)))
    assert share(replace(drifting, alternates=False), is_decided) >= 0.9


def test_jobs_without_noise_have_exact_figures() -> None:
    arms = (Arm(), Arm(ratio=0.9, cold_start=True))
    comparison = simulate(replace(NOISELESS, arms=arms, repeats=3), np.random.default_rng(1))
    [contrast] = comparison.contrasts
    assert contrast.verdict.outcome == "cheaper"
    assert contrast.verdict.ratio is not None
    assert contrast.verdict.ratio.estimate == pytest.approx(0.9)
    assert (contrast.verdict.ratio.n_arm, contrast.verdict.ratio.n_baseline) == (2, 3)
    # 40 s times 0.9, plus 25 s of compiling.
    assert [job.number("cost_billable_seconds") for job in contrast.arm.other_cache_states["cold"]] == [
        pytest.approx(61.0)
    ]


def test_jobs_run_repeat_by_repeat_and_drift_as_they_run() -> None:
    scenario = replace(NOISELESS, seconds=with_drift(normal(0.0), each=math.log(2)), job_seconds=1.0, repeats=2)
    jobs = draw_jobs(scenario, np.random.default_rng(1))
    assert list(zip(jobs["arm"], jobs["repeat"], strict=True)) == [("0", "0"), ("1", "0"), ("1", "1"), ("0", "1")]
    assert list(jobs["cost_billable_seconds"]) == pytest.approx([1, 2, 4, 8])
    arm_by_arm = draw_jobs(replace(scenario, alternates=False, whole_seconds=True), np.random.default_rng(1))
    assert list(arm_by_arm["arm"]) == ["0", "0", "1", "1"]


def test_recorded_jobs_are_drawn_in_their_order() -> None:
    drawn = in_order(np.arange(5.0))(np.random.default_rng(3), 4)
    assert [(after - before) % 5 for before, after in pairwise(drawn)] == [1, 1, 1]


def test_a_simulated_table_has_the_tracking_servers_columns(tracked: Any) -> None:
    tracked.trained("0", 0, 40.0, baseline=True)
    real, simulated = job_tables.jobs(tracked.client, tracked.group), draw_jobs(SCENARIO, np.random.default_rng(1))
    assert list(simulated.columns)[:-1] == [*job_tables.TEXT_COLUMNS, *job_tables.NUMBER_COLUMNS]
    assert simulated.dtypes.to_dict() == real.dtypes[simulated.columns].to_dict()


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


def test_recorded_jobs_are_dealt_to_two_sides_in_turn() -> None:
    # The first six jobs take 10 and 20 s in turn, the other six about the same time: one of two comparisons differs.
    seconds = [10.0, 20.0, 10.1, 20.2, 10.2, 20.4, 10.1, 10.2, 10.2, 10.3, 10.3, 10.1, 99.0]
    row = real_row("demo", [replace(REPEAT, billable_seconds=each) for each in seconds])
    assert (row.value, row.unit) == (1, "of 2")


def test_recorded_noise_can_be_sampled() -> None:
    noise = recorded_noise()
    assert len(noise.seconds) >= 30
    assert 0.001 < noise.spread < 0.5
    assert noise.seconds.mean() == pytest.approx(0.0, abs=1e-9)
