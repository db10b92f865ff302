"""Test the comparison of runs on a tracking server: its arms, sentences and break-even points."""

from typing import Any

import pytest

from reports.comparison import messages
from reports.comparison.comparison import Comparison, compare
from tracking.queries import job_tables


def comparison_of(tracked: Any) -> Comparison:
    return compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)


def two_arms(tracked: Any) -> Comparison:
    """Log three baseline jobs, and a compiled arm with one cold, three warm and one failed job."""
    warm, cold = {"platform.cache_state": "warm"}, {"platform.cache_state": "cold"}
    slow = {"time/compile_seconds": 0.0, "time/warmup_seconds": 10.0}
    tracked.trained("inductor", 0, 130.5, 200.0, tags=cold, metrics={"time/compile_seconds": 69.0})
    for repeat in range(3):
        tracked.trained("none", repeat, 100.5 + repeat, 100.0, baseline=True, metrics=slow)
    for repeat in range(1, 4):
        tracked.trained("inductor", repeat, 79.5 + repeat, 200.0, tags=warm, metrics={"time/compile_seconds": 39.0})
    tracked.job("inductor", 4, status="FAILED", metrics={"cost/billable_instance_seconds": 7.0})
    return comparison_of(tracked)


def test_the_baseline_comes_first_whichever_arm_started_first(tracked: Any) -> None:
    comparison = two_arms(tracked)
    assert [arm.label for arm in comparison.arms] == ["none", "inductor"]
    assert comparison.baseline is comparison.arms[0]


def test_a_cold_job_is_not_averaged_with_warm_jobs(tracked: Any) -> None:
    comparison = two_arms(tracked)
    contrast = comparison.contrasts[0]
    assert contrast.verdict.outcome == "cheaper"
    assert comparison.best is contrast
    assert contrast.verdict.ratio is not None
    assert (contrast.verdict.ratio.n_arm, contrast.verdict.ratio.n_baseline) == (3, 3)
    # 130.5 against the mean of 80.5, 81.5, 82.5
    assert messages.cache_sentences(contrast.arm) == [
        "Tables and charts show the 3 jobs with a warm cache, not 1 job with a cold cache (49.0 s more on average)."
    ]


def test_break_even_of_each_cache_state(tracked: Any) -> None:
    # C is 40 s warm and 70 s cold against 10 s; each sample saves 1/100 - 1/200 s.
    points = two_arms(tracked).contrasts[0].break_evens
    assert list(points) == ["warm", "cold"]
    assert points["warm"].samples == pytest.approx(6_000)
    assert points["warm"].minutes == pytest.approx(70 / 60)
    assert points["cold"].samples == pytest.approx(12_000)
    assert points["cold"].minutes == pytest.approx(130 / 60)


def test_samples_of_the_warm_up_are_work(tracked: Any) -> None:
    """18 s of steady steps at 100 samples per second train 1,800 of 2,000 samples. The other 200 took 2 s.

    A resumed job counts the samples of its earlier attempts too: no more than the warm-up itself is work.
    """
    times = {"time/compile_seconds": 7.0, "time/warmup_seconds": 5.0}
    tracked.trained("none", 0, 40.0, metrics={**times, "time/train_steady_seconds": 18.0})
    tracked.trained("none", 1, 40.0, metrics={**times, "time/train_steady_seconds": 8.0})
    tracked.trained("none", 2, 40.0, metrics=times)
    jobs = comparison_of(tracked).arms[0].jobs
    assert [job.setup_seconds for job in jobs] == [12.0] * 3
    assert [job.setup_beyond_steady_seconds for job in jobs] == pytest.approx([10.0, 7.0, 12.0])


def test_failed_jobs_are_counted_and_billed(tracked: Any) -> None:
    comparison = two_arms(tracked)
    assert len(comparison.arms[1].failed) == 1
    # 100.5 + 101.5 + 102.5 + 130.5 + 80.5 + 81.5 + 82.5 + 7
    assert comparison.billable_instance_seconds == pytest.approx(686.5)
    assert messages.cost_sentence(comparison) == (
        "8 jobs took 686 billable instance seconds in all, 7.00 of them in 1 failed job."
    )


def test_different_devices_are_not_compared(tracked: Any) -> None:
    for repeat in range(2):
        tracked.trained("none", repeat, 100.0, baseline=True)
        tracked.trained("inductor", repeat, 50.0, tags={"platform.device": "8 x H200"})
    comparison = comparison_of(tracked)
    assert messages.headline(comparison) == "No verdict: the settings did not do the same work."
    contrast = comparison.contrasts[0]
    assert contrast.break_evens == {}
    assert (
        messages.verdict_sentence(contrast, comparison.arms[0]) == "The device differs (1 x test processor, 8 x H200)."
    )


def test_the_headline_of_a_single_arm_states_its_cost(tracked: Any) -> None:
    assert messages.headline(comparison_of(tracked)) == "This group has no jobs."
    tracked.job("none", status="FAILED")
    assert messages.headline(comparison_of(tracked)) == "No verdict: the only job did not succeed."
    tracked.trained("none", 1, 41.0)
    assert messages.headline(comparison_of(tracked)) == "“none” took 41.0 billable seconds."


def test_a_running_job_is_neither_a_success_nor_a_failure(tracked: Any) -> None:
    tracked.job("none", status=None)
    arm = comparison_of(tracked).arms[0]
    assert (len(arm.succeeded), len(arm.failed), len(arm.jobs)) == (0, 0, 1)


def test_without_a_baseline_arms_are_compared_with_the_first_started(tracked: Any) -> None:
    tracked.trained("b", 0, 10.0)
    tracked.trained("a", 0, 10.0)
    assert [arm.label for arm in comparison_of(tracked).arms] == ["b", "a"]


def test_costs_of_earlier_jobs_are_without_their_trial_of_auto(tracked: Any) -> None:
    """Earlier versions chose the values of `auto` in a trial, which took 10 of the first job's 110 seconds."""
    trial = {"time/trial_seconds": 10.0, "target/seconds": 60.0}
    tracked.trained("none", 0, 110.0, metrics=trial, baseline=True)
    tracked.trained("none", 1, 100.0, metrics={"target/seconds": 50.0}, baseline=True)
    comparison = comparison_of(tracked)
    [arm] = comparison.arms
    assert arm.values("cost_billable_seconds") == [pytest.approx(100.0), 100.0]
    assert arm.values("target_seconds") == [50.0, 50.0]
    assert comparison.billable_instance_seconds == 210
