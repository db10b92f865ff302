"""Final points of a run, as bars and curves, and the titles of jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.comparison.arms import job_of
from reports.comparison.selected_jobs import with_common_arms
from tests.support.tracking.planned_jobs import planned
from tests.support.tracking.tracked import Tracked
from tracking.groups.planned_job import job_title
from tracking.queries import job_tables
from tracking.recording.metric_points import Deduplicator, final_points
from training.contract.events import Event


def test_final_values_extend_curves_and_others_become_bars() -> None:
    """MLflow draws a bar for a point at step 0; a curve ends at its last value."""
    deduplicator = Deduplicator()
    for step in (1, 2):
        values: dict[str, Any] = {"samples": 4 * step, "values": {"eval_loss": 1 / step}}
        deduplicator.new_points(Event(kind="metric", seq=step, time=step, fields={"step": step, **values}))
    points = final_points(
        {"eval_loss": 0.5, "cost/usd": 0.25, "eval_f1": 80, "note": "text"}, 9.5, 2, deduplicator.curves
    )
    assert {point.key: (point.value, point.step) for point in points} == {
        "eval_loss": (0.5, 2),
        "cost/usd": (0.25, 0),
        "eval_f1": (80.0, 0),
    }
    assert {point.timestamp for point in points} == {9500}


@pytest.mark.parametrize(
    ("arm", "repeat", "role", "title"),
    [
        ("batch 64", 1, None, "batch 64, repeat 2"),
        ("inductor, calibration", 0, "calibration", "inductor, calibration"),
        ("inductor, batch 64, rate × 2", 0, "trial", "inductor, batch 64, rate × 2, trial"),
        ("none, batch 8", 0, "baseline", "none, batch 8, baseline"),
        ("none, batch 8", 3, "confirmation", "none, batch 8, repeat 3"),
    ],
)
def test_titles_of_jobs(tmp_path: Path, arm: str, repeat: int, role: str | None, title: str) -> None:
    assert job_title(arm, repeat, role) == title
    tags = {"platform.role": role} if role else {}
    assert replace(planned(tmp_path, "job", repeat), arm=arm, tags=tags).run_name == title


def test_a_report_names_jobs_like_their_runs(tracked: Tracked) -> None:
    tracked.trained("none", 0, 10.0, baseline=True, losses=[])
    tracked.trained("inductor", 1, 9.0, losses=[])
    tracked.trained("inductor, batch 8", 2, 9.0, tags={"platform.role": "confirmation"}, losses=[])
    table = job_tables.jobs(tracked.client, tracked.group)
    assert [job_of(row).title for row in table.to_dict("records")] == [
        "none, repeat 1",
        "inductor, repeat 2",
        "inductor, batch 8, repeat 2",
    ]


def test_jobs_of_several_groups_are_named_by_their_common_arms(tracked: Tracked) -> None:
    """A repeat of a sweep is numbered among all jobs of its arm."""
    tracked.trained("none", 4, 10.0, tags={"platform.compiler": "none"}, losses=[])
    tracked.group = "sweep-1"
    of_sweep = {"platform.compiler": "none", "platform.role": "confirmation"}
    tracked.trained("none, batch 16", 1, 9.0, tags=of_sweep, losses=[])
    table = job_tables.table_of(job_tables.runs_where(tracked.client, "tags.`platform.kind` = 'job'"))
    titles = [job_of(row).title for row in with_common_arms(table).to_dict("records")]
    assert titles == ["none, repeat 1", "none, repeat 2"]
