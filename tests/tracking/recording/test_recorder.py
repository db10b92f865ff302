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
from tracking.recording.recorder import Recorder, open_run
from tracking.server.store import Store
from training.contract.events import Event
from training.contract.price import Price


@pytest.mark.parametrize("precision", ["auto", None])
def test_a_run_records_the_precision_that_was_requested(
    tracking_uri: str, tmp_path: Path, precision: str | None
) -> None:
    store = Store(MlflowClient(tracking_uri), retry_seconds=5.0)
    group = open_group(store, experiment_name="demo", verb="train", key="k")
    requested = {} if precision is None else {"precision": precision}
    run = store.client.get_run(open_run(store, group, planned(tmp_path, "job-1", **requested)).id)
    assert run.data.tags.get("platform.requested_precision") == precision


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
    [(None, "FINISHED"), (("Error", "no such luck"), "FAILED"), (("Stopped", "it was stopped"), "KILLED")],
)
def test_every_point_is_recorded_once_and_the_run_ends_with_its_cost(
    tracking_uri: str, tmp_path: Path, failure: tuple[str, str] | None, status: str
) -> None:
    """The log arrives in two parts, of which the second repeats some lines. Each step has two points of its own."""
    store = Store(MlflowClient(tracking_uri), retry_seconds=5.0)
    group = open_group(store, experiment_name="demo", verb="train", key="k")
    job = replace(planned(tmp_path, "job-1"), price=Price(usd_per_hour=3.6, source="a table", date="2026-11-01"))
    run_id = open_run(store, group, job).id
    recorder = Recorder(store, run_id, job)
    recorder.record([], [metric(step) for step in range(1, 1_001)])
    recorder.record([], [metric(step) for step in range(990, LAST_STEP + 1)])
    recorder.finish(description(status="Failed" if failure else "Completed"), failure, "")

    losses = store.client.get_metric_history(run_id, "loss")
    assert sorted((point.step, point.value) for point in losses) == [(at, 1 / at) for at in range(1, LAST_STEP + 1)]
    assert [point.timestamp for point in losses if point.step == 7] == [int(1_000 * (SECONDS + 7))]
    assert len(store.client.get_metric_history(run_id, "samples")) == LAST_STEP
    run = store.client.get_run(run_id)
    assert run.info.status == status
    assert run.data.tags.get("platform.failure_class") == (failure[0] if failure else None)
    costs = {
        name: run.data.metrics[f"cost/{name}"] for name in ("billable_seconds", "billable_instance_seconds", "usd")
    }
    assert costs == {"billable_seconds": 1_800, "billable_instance_seconds": 3_600, "usd": pytest.approx(3.6)}
