"""Test the tags of a job's run that reports use, on a real tracking store."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.tracking.planned_jobs import planned
from tracking.groups.group import open_group
from tracking.recording.recorder import open_run
from tracking.server.store import Store


@pytest.mark.parametrize("precision", ["auto", "bf16", None])
def test_a_run_records_the_precision_that_was_requested(
    tracking_uri: str, tmp_path: Path, precision: str | None
) -> None:
    store = Store(MlflowClient(tracking_uri), retry_seconds=5.0)
    group = open_group(store, experiment_name="demo", verb="train", key="k")
    requested = {} if precision is None else {"precision": precision}
    run = store.client.get_run(open_run(store, group, planned(tmp_path, "job-1", **requested)).id)
    assert run.data.tags.get("platform.requested_precision") == precision
