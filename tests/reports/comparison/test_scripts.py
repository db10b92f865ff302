"""The report of scripts: what they do not tell is left out, and what is taken on trust is said."""

from __future__ import annotations

import io
from typing import Any

from reports.comparison.columns import columns
from reports.formats.report import Report
from reports.formats.terminal import print_comparison
from reports.render import render

OUTSIDE = {"platform.measured": "outside"}


def rendered(tracked: Any, **more: float) -> Report:
    for arm, seconds in (("batch 4", 100.0), ("batch 8", 80.0)):
        for repeat in range(2):
            paid = {"cost/billable_seconds": seconds, "cost/billable_instance_seconds": seconds + repeat}
            tracked.job(arm, repeat, metrics={**paid, "loss": 0.5, **more}, tags=OUTSIDE)
    return render(tracked.client, tracked.group, "own")


def test_a_plain_loop(tracked: Any) -> None:
    report = rendered(tracked)
    assert [column.label for column in columns(report.comparison)] == [
        "arm",
        "billable",
        "last training loss",
        "repeats",
        "failed",
    ]
    stream = io.StringIO()
    print_comparison(report.comparison, stream)
    text = " ".join(stream.getvalue().split())
    assert "No job tells how many samples it saw: that all did equal work is taken on trust." in text
    assert "but no quality was measured" in text
    assert "reak-even" not in text
    assert "taken on trust" in report.html
    assert "Measured from outside" in report.html
    assert "phases.png" not in report.pngs


def test_a_trainer_script(tracked: Any) -> None:
    told = {"time/train_seconds": 50.0, "time/eval_seconds": 5.0, "samples": 100.0, "eval_accuracy": 0.9}
    report = rendered(tracked, **told, **{"throughput/end_to_end_samples_per_second": 1.0})
    labels = " ".join(column.label for column in columns(report.comparison))
    assert labels == "arm end to end training billable last training loss accuracy repeats failed"
    assert "phases.png" in report.pngs
    assert "on trust" not in report.html
    assert report.comparison.contrasts[0].verdict.outcome == "cheaper"


def test_each_chart_tells_its_own_change(tracked: Any) -> None:
    """Billable seconds fall by 20 %, the training's own seconds by half."""
    for arm, seconds, runtime in (("batch 4", 100.0, 10.0), ("batch 8", 80.0, 5.0)):
        for repeat in range(2):
            paid = {"cost/billable_seconds": seconds, "cost/billable_instance_seconds": seconds + repeat}
            tracked.job(arm, repeat, metrics={**paid, "train_runtime": runtime}, tags=OUTSIDE)
    html = render(tracked.client, tracked.group, "own").html
    assert "5.00  −50 %" in html
    assert "80.5  −20 %" in html
