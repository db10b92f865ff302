"""Test what reports read of a job's run, on a real tracking store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.support.tracking.planned_jobs import planned
from tracking.groups.group import open_group
from tracking.queries.job_tables import tags_of
from tracking.recording.recorder import (
    Recorder,
    compiler_warning,
    compiler_was_active,
    death_of,
    open_run,
    recorded_death,
)
from tracking.server.store import Store
from training.contract.events import Event
from training.contract.failures import Failure
from training.contract.price import Price

SECONDS = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
LAST_STEP = 1_200


def metric(step: int) -> Event:
    return Event("metric", step, SECONDS + step, {"step": step, "samples": 8 * step, "values": {"loss": 1 / step}})


def description(*, status: str) -> dict[str, Any]:
    """Return the description of a job that ran on two machines for 1,800 s."""
    end = datetime.fromtimestamp(SECONDS + 1_800, UTC)
    times = {"TrainingEndTime": end, "LastModifiedTime": end, "BillableTimeInSeconds": 1_800}
    return {"TrainingJobStatus": status, "ResourceConfig": {"InstanceCount": 2}, **times}


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (None, "FINISHED"),
        (Failure("Error", "no such luck"), "FAILED"),
        (Failure("Stopped", "it was stopped"), "KILLED"),
    ],
)
def test_every_point_is_recorded_once_and_the_run_ends_with_its_cost(
    tracking_uri: str, tmp_path: Path, failure: Failure | None, status: str
) -> None:
    """The log arrives in two parts, of which the second repeats some lines. Each step has two points of its own."""
    store = Store(MlflowClient(tracking_uri), retry_seconds=5.0)
    group = open_group(store, experiment_name="demo", verb="train", key="k")
    job = replace(
        planned(tmp_path, "job-1", precision="auto"), price=Price(usd_per_hour=3.6, source="a table", date="2026-11-01")
    )
    run_id = open_run(store, group, job).id
    assert tags_of(store.client.get_run(run_id))["platform.requested_precision"] == "auto"
    recorder = Recorder(store, run_id, job)
    recorder.record([], [metric(step) for step in range(1, 1_001)])
    recorder.record([], [metric(step) for step in range(990, LAST_STEP + 1)])
    recorder.finish(description(status="Failed" if failure else "Completed"), failure)

    losses = store.client.get_metric_history(run_id, "loss")
    assert sorted((point.step, point.value) for point in losses) == [(at, 1 / at) for at in range(1, LAST_STEP + 1)]
    assert [point.timestamp for point in losses if point.step == 7] == [int(1_000 * (SECONDS + 7))]
    assert len(store.client.get_metric_history(run_id, "samples")) == LAST_STEP
    run = store.client.get_run(run_id)
    assert run.info.status == status
    assert run.data.tags.get("platform.failure_class") == (failure.failure_class if failure else None)
    costs = {
        name: run.data.metrics[f"cost/{name}"] for name in ("billable_seconds", "billable_instance_seconds", "usd")
    }
    assert costs == {"billable_seconds": 1_800, "billable_instance_seconds": 3_600, "usd": pytest.approx(3.6)}


TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 9, in main
    start()
RuntimeError: no such device"""


def logged(step: int) -> Event:
    return Event(kind="metric", seq=step, time=1.0, fields={"step": step, "values": {"loss": 1.0}})


def test_a_job_dies_of_the_exception_in_its_traceback() -> None:
    failure = Failure("Error", traceback=TRACEBACK)
    early, late = death_of(failure, [logged(0)]), death_of(failure, [logged(1)])
    assert early
    assert late
    assert (early.exception, early.moment, late.moment) == ("RuntimeError: no such device", "start", "later")
    tags = {"platform.exception": "RuntimeError: no such device", "platform.exception_moment": "start"}
    assert recorded_death(tags) == early


@pytest.mark.parametrize("failure_class", ["Stopped", "Killed", "TimeLimit"])
def test_a_job_that_others_ended_died_of_no_exception(failure_class: str) -> None:
    assert death_of(Failure(failure_class, traceback=TRACEBACK), []) is None
    assert recorded_death({"platform.exception": "X", "platform.exception_moment": "unknown"}) is None
    assert recorded_death({}) is None


SHOWN = ["2022-10-05 INFO Configuring SM Training Compiler...", "loss 0.5"]


@pytest.mark.parametrize(
    ("compiler", "lines", "active", "message"),
    [
        ("trcomp", SHOWN, True, ""),
        ("trcomp", ["loss 0.5"], False, "does not show that SageMaker Training Compiler ran"),
        ("trcomp-off", ["loss 0.5"], False, ""),
        ("trcomp-off", SHOWN, True, "ran, although it was turned off"),
        ("none", SHOWN, None, ""),
    ],
)
def test_the_log_is_checked_against_the_setting(
    compiler: str, lines: list[str], active: bool | None, message: str
) -> None:
    assert compiler_was_active(compiler, lines) is active
    assert message in (compiler_warning(compiler, active) or "")
    assert (compiler_warning(compiler, active) is None) == (not message)
