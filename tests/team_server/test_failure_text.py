"""A group continues after a job whose failure has text that PostgreSQL refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.tracking.planned_jobs import planned
from tracking.following.group_session import run_jobs
from tracking.groups.group import open_group
from tracking.server.store import Store
from training.services.local.service import LocalService

MESSAGE = f"\0 \ud83d \N{FIRE} \x1b[31m{9000 * 'long '}"
EVENT = {"event": "failure", "seq": 0, "time": 1, "failure_class": "Error", "message": MESSAGE}
FAILING = f"print('trainfare-event', {json.dumps(EVENT)!r})\nraise SystemExit(1)\n"


@pytest.mark.gate
@pytest.mark.slow
def test_any_failure_text_is_recorded_with_the_cost_of_the_job(admin: MlflowClient, tmp_path: Path) -> None:
    store = Store(admin, retry_seconds=20.0)
    group = open_group(store, experiment_name="failure text", verb="compare", key="k")
    jobs = [planned(tmp_path, f"{group.id}-{number}", repeat=number) for number in range(2)]
    (tmp_path / "source" / "train.py").write_text(FAILING)
    outcomes = run_jobs(store, LocalService(tmp_path), group, jobs)
    assert len(outcomes) == 2
    for run in (admin.get_run(outcome.run_id) for outcome in outcomes):
        assert run.info.status == "FAILED"
        assert run.data.metrics["cost/billable_instance_seconds"] > 0
        assert run.data.tags["platform.failure_message"].startswith("\\u0000 ? \N{FIRE} long long")
