"""Points of events, each recorded once, final points as bars and curves, and the titles of jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.tracking.planned_jobs import planned
from tests.support.tracking.tracked import Tracked
from tracking.groups.planned_job import job_title
from tracking.queries import job_tables
from tracking.recorded.arms import with_common_arms
from tracking.recorded.recorded_job import job_of
from tracking.recording.metrics import Deduplicator, final_points, hyperparameters
from training.contract.events import Event


def test_final_values_extend_curves_and_others_become_bars() -> None:
    """MLflow draws a bar for a point at step 0; a curve ends at its last value."""
    deduplicator = Deduplicator()
    for step in (1, 2):
        values: dict[str, Any] = {"samples": 4 * step, "values": {"eval_loss": 1 / step, "loss": 1 / step}}
        deduplicator.new_points(Event(kind="metric", seq=step, time=step, fields={"step": step, **values}))
    points = final_points(
        {"eval_loss": 0.4, "loss": 0.5, "cost/usd": 0.25, "eval_f1": 80, "note": "text"}, 9.5, 2, deduplicator.curves
    )
    assert {point.key: (point.value, point.step) for point in points} == {
        "eval_loss": (0.4, 2),
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


def test_reports_name_jobs_like_their_runs_and_several_groups_by_their_common_arms(tracked: Tracked) -> None:
    """A repeat of a sweep is numbered among all jobs of its arm."""
    tracked.trained("none", 4, 10.0, tags={"platform.compiler": "none"}, losses=[])
    tracked.group = "sweep-1"
    of_sweep = {"platform.compiler": "none", "platform.role": "confirmation"}
    tracked.trained("none, batch 16", 1, 9.0, tags=of_sweep, losses=[])
    table = job_tables.table_of(job_tables.runs_where(tracked.client, "tags.`platform.kind` = 'job'"))
    titles = [job_of(row).title for row in table.to_dict("records")]
    assert titles == ["none, repeat 5", "none, batch 16, repeat 1"]
    titles = [job_of(row).title for row in with_common_arms(table).to_dict("records")]
    assert titles == ["none, repeat 1", "none, repeat 2"]


def test_every_field_that_an_arm_sets_is_a_parameter_once() -> None:
    reported = {"batch_size": 8, "target_metric": None, "model": "gpt2", "max_steps": -1, "fp16": True}
    settings = {
        "batch_size": "8",
        "target.metric": "None",
        "model_type": "gpt2",
        "max_steps": "None",
        "packing": "False",
        "machine.instance_type": "ml.g5.xlarge",
        "machine.cores": "2",
        "script.hyperparameters.bf16": "None",
    }
    event = Event(kind="start", seq=0, time=0.0, fields={"hyperparameters": reported, "threads": 2})
    assert {each.key: each.value for each in hyperparameters(event, settings)} == {
        "hp.batch_size": "8",
        "hp.target_metric": "None",
        "hp.model": "gpt2",
        "hp.max_steps": "None",
        "packing": "False",
        "machine.cores": "2",
        "hp.fp16": "True",
        "hp.bf16": "None",
        "job.threads": "2",
    }


def metric(step: int, time: float, **values: float) -> Event:
    fields: dict[str, Any] = {"step": step, "samples": 16 * step, "epoch": step / 10, "values": values}
    return Event(kind="metric", seq=int(10 * time), time=time, fields=fields)


def new(deduplicator: Deduplicator, event: Event) -> list[tuple[str, float, int, int]]:
    points = deduplicator.new_points(event)
    return [(point.key, point.value, point.step, point.timestamp) for point in points]


def test_the_progress_of_a_step_is_recorded_once() -> None:
    """The evaluation at the end of step 5 comes two seconds after its loss."""
    deduplicator = Deduplicator()
    assert new(deduplicator, metric(5, 1.0, loss=0.7)) == [
        ("loss", 0.7, 5, 1000),
        ("epoch", 0.5, 5, 1000),
        ("samples", 80.0, 5, 1000),
    ]
    assert new(deduplicator, metric(5, 3.0, eval_loss=0.8)) == [("eval_loss", 0.8, 5, 3000)]
    assert new(deduplicator, metric(5, 4.0, loss=0.5)) == [("loss", 0.5, 5, 4000)]
    assert [key for key, *_ in new(deduplicator, metric(6, 5.0, loss=0.6))] == ["loss", "epoch", "samples"]


def test_steps_before_a_restart_are_not_recorded_again() -> None:
    deduplicator = Deduplicator()
    for step in (1, 2, 3):
        new(deduplicator, metric(step, step, loss=1 / step))
    deduplicator.new_points(Event(kind="start", seq=50, time=5.0, fields={}))
    assert new(deduplicator, metric(3, 6.0, loss=0.4)) == []
    assert [key for key, *_ in new(deduplicator, metric(4, 7.0, loss=0.3))] == ["loss", "epoch", "samples"]


def test_an_event_that_is_sent_again_is_not_new() -> None:
    deduplicator = Deduplicator()
    first, second, third = (metric(step, float(step), loss=0.5) for step in (1, 2, 3))
    assert deduplicator.new_events([first, second]) == [first, second]
    assert deduplicator.new_events([second, third]) == [third]
