"""From runs on a tracking server to the comparison, its words and its break-even points."""

from typing import Any

import pytest

from judging.intervals import Interval
from reports.comparison import messages
from reports.comparison.comparison import Comparison, compare, extra_seconds
from reports.model.numbers import change, change_interval, figure, rate, signed_percent
from tracking.queries import job_tables


def comparison_of(tracked: Any) -> Comparison:
    return compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)


def two_arms(tracked: Any) -> Comparison:
    """A baseline of three, a compiled arm of one cold and three warm jobs, one of them failed besides."""
    warm, cold = {"platform.cache_state": "warm"}, {"platform.cache_state": "cold"}
    slow = {"time/compile_seconds": 0.0, "time/warmup_seconds": 10.0}
    tracked.trained("inductor", 0, 130.5, 200.0, tags=cold, metrics={"time/compile_seconds": 69.0})
    for repeat in range(3):
        tracked.trained("none", repeat, 100.5 + repeat, 100.0, baseline=True, metrics=slow)
    for repeat in range(1, 4):
        tracked.trained("inductor", repeat, 79.5 + repeat, 200.0, tags=warm, metrics={"time/compile_seconds": 39.0})
    tracked.job("inductor", 4, status="FAILED", metrics={"cost/billable_instance_seconds": 7.0})
    return comparison_of(tracked)


def test_the_baseline_stands_first_whatever_started_first(tracked: Any) -> None:
    comparison = two_arms(tracked)
    assert [arm.label for arm in comparison.arms] == ["none", "inductor"]
    assert comparison.baseline is comparison.arms[0]


def test_cheaper_with_its_cold_job_apart(tracked: Any) -> None:
    comparison = two_arms(tracked)
    contrast = comparison.contrasts[0]
    assert contrast.verdict.outcome == "cheaper"
    assert comparison.best is contrast
    assert contrast.verdict.ratio is not None
    assert (contrast.verdict.ratio.n_arm, contrast.verdict.ratio.n_baseline) == (3, 3)
    # 130.5 against the mean of 80.5, 81.5, 82.5
    assert extra_seconds(contrast.arm, "cold") == pytest.approx(49.0)
    assert messages.cache_sentences(contrast.arm) == [
        "Figures are of the 3 jobs with a warm cache; 1 job with a cold cache not included: 49.0 s more on average."
    ]


def test_break_even_of_each_cache_state(tracked: Any) -> None:
    # C is 40 s warm and 70 s cold against 10 s; 1/100 - 1/200 s are earned per sample.
    points = two_arms(tracked).contrasts[0].break_evens
    assert list(points) == ["warm", "cold"]
    assert points["warm"].samples == pytest.approx(6_000)
    assert points["warm"].minutes == pytest.approx(70 / 60)
    assert points["cold"].samples == pytest.approx(12_000)
    assert points["cold"].minutes == pytest.approx(130 / 60)


def test_failed_jobs_are_counted_and_paid(tracked: Any) -> None:
    comparison = two_arms(tracked)
    assert len(comparison.arms[1].failed) == 1
    # 100.5 + 101.5 + 102.5 + 130.5 + 80.5 + 81.5 + 82.5 + 7
    assert comparison.billable_instance_seconds == pytest.approx(686.5)
    assert messages.cost_sentence(comparison) == (
        "8 jobs took 686 billable instance seconds in all, 7.00 of them in 1 that failed."
    )


def test_other_devices_are_not_compared(tracked: Any) -> None:
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


@pytest.mark.parametrize(
    ("billable", "sentence"),
    [
        ((80.5, 81.5), "“inductor” is cheaper: 20 % fewer billable seconds than “none”."),
        ((120.5, 121.5), "No setting is cheaper than “none”."),
        ((80.5,), "No setting is shown to be cheaper than “none”."),
        ((80.5, 120.5), "No setting is shown to be cheaper than “none”."),
    ],
)
def test_headline(tracked: Any, billable: tuple[float, ...], sentence: str) -> None:
    for repeat, seconds in enumerate((100.5, 101.5)):
        tracked.trained("none", repeat, seconds, baseline=True)
    for repeat, seconds in enumerate(billable):
        tracked.trained("inductor", repeat, seconds)
    assert messages.headline(comparison_of(tracked)) == sentence


def test_headline_without_anything_to_compare(tracked: Any) -> None:
    assert messages.headline(comparison_of(tracked)) == "This group holds no jobs."
    tracked.job("none", status="FAILED")
    assert messages.headline(comparison_of(tracked)) == "No verdict: the only job did not succeed."
    tracked.trained("none", 1, 41.0)
    assert messages.headline(comparison_of(tracked)) == "“none” took 41.0 billable seconds."


def test_a_job_that_still_runs_is_neither_success_nor_failure(tracked: Any) -> None:
    tracked.job("none", status=None)
    arm = comparison_of(tracked).arms[0]
    assert (len(arm.succeeded), len(arm.failed), len(arm.jobs)) == (0, 0, 1)


def test_arms_that_have_no_baseline_compare_with_the_first_started(tracked: Any) -> None:
    tracked.trained("b", 0, 10.0)
    tracked.trained("a", 0, 10.0)
    assert [arm.label for arm in comparison_of(tracked).arms] == ["b", "a"]


def test_changes_in_words() -> None:
    assert change(0.8) == "20 % fewer"
    assert change(1.052) == "5.2 % more"
    assert change_interval(Interval(0.8, 0.76, 0.88, 3, 3)) == "12 % to 24 % fewer"
    assert change_interval(Interval(1.05, 1.03, 1.09, 3, 3)) == "3.0 % to 9.0 % more"
    assert change_interval(Interval(1.0, 0.97, 1.05, 3, 3)) == "3.0 % fewer to 5.0 % more"
    assert signed_percent(0.8) == "−20 %"


def test_figures_in_words() -> None:
    told = [0.01234, 1.0, 4.567, 78.94, 12_345.6, 0.0, float("nan"), float("inf"), None]
    assert [figure(value) for value in told] == [
        "0.0123",
        "1.00",
        "4.57",
        "78.9",
        "12,346",
        "0.00",
        "–",
        "∞",
        "–",
    ]
    assert [rate(value) for value in (5e-5, 2e-4, 1.25e-5, 0.001, 0.05)] == [
        "5e-5",
        "2e-4",
        "1.25e-5",
        "1e-3",
        "0.05",
    ]
