"""Test that a job which a person stopped counts as stopped, and not as failed, everywhere in a comparison."""

from __future__ import annotations

from typing import Any

from reports.formats.figures import summary
from reports.render import render
from tests.support.reports.reading import markdown_text, page_table, page_text, terminal_text

STOPPED = {"platform.failure_class": "Stopped", "platform.failure_message": "it was stopped"}


def test_a_stopped_job_is_not_a_failed_one(tracked: Any) -> None:
    for repeat, seconds in enumerate((100.0, 101.0, 102.0)):
        tracked.trained("none", repeat, seconds, baseline=True)
        tracked.trained("inductor", repeat, seconds - 20)
    paid = {"cost/billable_instance_seconds": 60.0}
    tracked.job("inductor", 3, status="KILLED", metrics=paid, tags=STOPPED)
    report = render(tracked.client, tracked.group, "t")
    for form in (page_text(report), terminal_text(report), markdown_text(report)):
        assert "7 jobs took 606 billable instance seconds in all, 60.0 of them in 1 stopped job." in form
        assert "1 job of “inductor” was stopped." in form
        assert "1 failed job" not in form
    row = page_table(report)["inductor"]
    # The stopped job's 60 seconds do not make the successful ones dearer.
    assert (row["failed"], row["stopped"], row["billable"]) == ("0", "1", "81.0")
    [inductor] = [arm for arm in summary(report)["arms"] if arm["label"] == "inductor"]
    assert (inductor["failed"], inductor["stopped"]) == (0, 1)
    assert "failed" not in report.results


def test_a_comparison_of_stopped_jobs_did_not_fail(tracked: Any) -> None:
    for arm in ("none", "inductor"):
        tracked.job(arm, 0, status="KILLED", baseline=arm == "none", tags=STOPPED)
    report = render(tracked.client, tracked.group, "t")
    assert report.headline == "No verdict: all 2 jobs were stopped."
    assert report.short_answer.text == "stopped"
    assert "failed" not in report.results
