"""The trial of `auto`, which one job of a group pays, does not count in comparisons."""

from __future__ import annotations

import pytest

from reports.comparison.comparison import compare
from reports.comparison.messages import cost_sentence
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables


def test_a_trial_counts_in_the_total_and_not_in_the_ratio(tracked: Tracked) -> None:
    seconds = [100.0, 101.0, 99.0]
    for repeat, billable in enumerate(seconds):
        paid = {"time/trial_seconds": 10.0} if repeat == 0 else {}
        tracked.trained("none", repeat, billable + (10 if paid else 0), metrics=paid, baseline=True)
        tracked.trained("inductor", repeat, billable)
    comparison = compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)
    [contrast] = comparison.contrasts
    assert contrast.verdict.ratio is not None
    assert contrast.verdict.ratio.estimate == pytest.approx(1.0)
    assert comparison.billable_instance_seconds == 610
    assert cost_sentence(comparison) == (
        "6 jobs took 610 billable instance seconds in all. Choosing the values of `auto` took 10.0 of these seconds, "
        "which comparisons leave out."
    )


def test_looking_up_what_an_earlier_job_chose_is_not_mentioned(tracked: Tracked) -> None:
    tracked.trained("none", 0, 100.0, metrics={"time/trial_seconds": 0.004}, baseline=True)
    assert "auto" not in cost_sentence(compare(job_tables.jobs(tracked.client, tracked.group), tracked.group))


def test_the_time_up_to_a_target_is_without_the_trial(tracked: Tracked) -> None:
    tracked.trained("none", 0, 100.0, metrics={"time/trial_seconds": 10.0, "target/seconds": 60.0}, baseline=True)
    tracked.trained("none", 1, 90.0, metrics={"target/seconds": 50.0}, baseline=True)
    [arm] = compare(job_tables.jobs(tracked.client, tracked.group), tracked.group).arms
    assert arm.values("target_seconds") == [50.0, 50.0]
