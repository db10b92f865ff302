"""Test reports on scripts: figures that were not recorded are left out, and assumptions are stated."""

from __future__ import annotations

import io
from typing import Any

from reports.formats.figures import summary
from reports.formats.html import html_page
from reports.formats.terminal import print_report
from reports.model.report import Report
from reports.render import render
from tests.support.reports.reading import chart_names

OUTSIDE = {"platform.measured": "outside"}


def rendered(tracked: Any, **more: float) -> Report:
    for arm, seconds in (("batch 4", 100.0), ("batch 8", 80.0)):
        for repeat in range(2):
            costs = {"cost/billable_seconds": seconds, "cost/billable_instance_seconds": seconds + repeat}
            tracked.job(arm, repeat, metrics={**costs, "loss": 0.5, **more}, tags=OUTSIDE)
    return render(tracked.client, tracked.group, "own")


def settings_headings(report: Report) -> list[str]:
    """Return the headings of the table of settings, without the verdict's."""
    assert report.comparison_table is not None
    return [heading.label for heading in report.comparison_table.headings][:-1]


def test_the_report_on_a_plain_loop_omits_unrecorded_figures(tracked: Any) -> None:
    report = rendered(tracked)
    assert settings_headings(report) == [
        "arm",
        "billable",
        "last training loss",
        "repeats",
        "failed",
    ]
    stream = io.StringIO()
    print_report(report, stream)
    text = " ".join(stream.getvalue().split())
    assert "No job recorded how many samples it saw: equal work is assumed." in text
    assert "but no metric measures the quality: give one of script.metrics a unit" in text
    assert "reak-even" not in text
    assert "equal work is assumed" in html_page(report)
    assert "Measured from outside" in html_page(report)
    assert "phases" not in chart_names(report)


def test_the_report_on_a_trainer_script_has_its_recorded_figures(tracked: Any) -> None:
    metrics = {"time/train_seconds": 50.0, "time/eval_seconds": 5.0, "samples": 100.0, "eval_accuracy": 0.9}
    report = rendered(tracked, **metrics, **{"throughput/end_to_end_samples_per_second": 1.0})
    labels = " ".join(settings_headings(report))
    assert labels == "arm end to end training billable last training loss accuracy repeats failed"
    assert "phases" in chart_names(report)
    assert "equal work is assumed" not in html_page(report)
    assert summary(report)["contrasts"][0]["outcome"] == "cheaper"


def test_each_chart_shows_its_own_change(tracked: Any) -> None:
    """Billable seconds fall by 20 %, and the seconds of the training loop by half."""
    for arm, seconds, runtime in (("batch 4", 100.0, 10.0), ("batch 8", 80.0, 5.0)):
        for repeat in range(2):
            costs = {"cost/billable_seconds": seconds, "cost/billable_instance_seconds": seconds + repeat}
            tracked.job(arm, repeat, metrics={**costs, "train_runtime": runtime}, tags=OUTSIDE)
    html = html_page(render(tracked.client, tracked.group, "own"))
    assert "5.00  −50 %" in html
    assert "80.5  −20 %" in html
