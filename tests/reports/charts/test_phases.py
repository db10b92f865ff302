"""Test the chart of job phases on hand-made jobs, and the epochs above a loss curve."""

from __future__ import annotations

import re

import pytest

from reports.charts.report_charts import phases, rows_of
from reports.comparison.comparison import Comparison, compare
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables

PHASES = {
    "time/queue_seconds": 40.0,
    "time/download_seconds": 3.0,
    "time/compile_seconds": 6.0,
    "time/upload_seconds": 2.0,
}


def compared(tracked: Tracked) -> Comparison:
    return compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)


def test_an_arm_has_a_bar_of_its_phases_in_order_for_each_state_of_the_cache(tracked: Tracked) -> None:
    """40 s billed: 3 download, 2 load, 6 compile, 1 warm-up, 20 training, 1.5 evaluation, 0.5 saving, 2 upload."""
    tracked.trained("none", 0, 40.0, metrics=PHASES, tags={"platform.cache_state": "cold"})
    tracked.trained("none", 1, 41.0, status="FAILED")
    for repeat in range(2, 5):
        tracked.trained("none", repeat, 28.0 + repeat, tags={"platform.cache_state": "warm"})
    warm, cold = rows_of(compared(tracked))
    assert (warm.heading, warm.note) == ("none, warm cache  (mean of 3)", "31.0 s")
    assert (cold.heading, cold.note) == ("none, cold cache", "40.0 s")
    seconds = {phase: seconds for phase, seconds in cold.seconds.items() if seconds}
    assert seconds == {
        "queue": 40.0,
        "download": 3.0,
        "load": 2.0,
        "compile": 6.0,
        "warmup": 1.0,
        "train_steady": 20.0,
        "eval": 1.5,
        "save": 0.5,
        "upload": 2.0,
        "other": pytest.approx(4.0),
    }


def test_jobs_without_phases_and_without_success_have_no_bar(tracked: Tracked) -> None:
    assert phases(compared(tracked)) is None
    tracked.trained("none", 0, 40.0, metrics=PHASES)
    tracked.job("inductor", 0, status="FAILED", metrics={"cost/billable_seconds": 12.0})
    tracked.trained("inductor", 1, 30.0)
    tracked.job("inductor", 2, status=None)
    comparison = compared(tracked)
    assert [(row.heading, row.note) for row in rows_of(comparison)] == [("none", "40.0 s"), ("inductor", "30.0 s")]
    chart = phases(comparison)
    assert chart is not None
    assert "queue (not billed)" in chart.svg
    assert "inductor: 30.0 s, of which load 2.00, " in chart.svg


def test_the_legend_names_only_visible_phases(tracked: Tracked) -> None:
    tracked.trained("none", 0, 400.0, metrics={**PHASES, "time/upload_seconds": 0.01})
    chart = phases(compared(tracked))
    assert chart is not None
    drawn = set(re.findall(r"<text[^>]*>([^<]+)</text>", chart.svg))
    assert {"download", "queue (not billed)"} <= drawn
    assert "upload" not in drawn
