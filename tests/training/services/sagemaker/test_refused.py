"""Jobs that SageMaker rejects do not affect the other jobs of their group."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.aws.account import Account
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.following import group_session
from tracking.following.group_session import run_jobs
from tracking.groups.group import child_runs, open_group
from tracking.server.store import open_store
from training.contract.plain_text import without_markup


@pytest.mark.slow
def test_rejected_jobs_leave_the_others_running(
    account: Account, tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    harness, store = SageMakerHarness(tmp_path, account), open_store(tracking_uri)
    account.jobs.quotas = {"ml.p3.2xlarge": 0, "ml.p3.8xlarge": 1}
    group = open_group(store, experiment_name="demo", verb="compare", key="k1")
    kinds = {
        "without-quota": {"instance_type": "ml.p3.2xlarge"},
        "too-many": {"instance_type": "ml.p3.8xlarge", "instance_count": 2},
        "no-such-type": {"instance_type": "ml.none.xlarge"},
        "granted": {"instance_type": "ml.g5.xlarge"},
    }
    steps = {"hyperparameters": {"steps": 2}}
    jobs = [planned_as(harness.spec(TRAIN_PY, name=name, **steps, **kind), name) for name, kind in kinds.items()]
    messages: list[str] = []
    outcomes = run_jobs(store, harness.service, group, jobs, echo=messages.append)
    assert account.jobs.names() == ["granted"]
    assert [outcome.failure[0] if outcome.failure else None for outcome in outcomes] == ["Refused"] * 3 + [None]
    reasons = [str(outcome.refusal) for outcome in outcomes[:3]]
    assert "is 0: request an increase" in reasons[0]
    assert "is 1, and 2 were requested: request an increase" in reasons[1]
    assert "SageMaker rejected the request" in reasons[2]
    runs = child_runs(store, group)
    assert {name: run.info.status for name, run in runs.items()} == {
        **dict.fromkeys(kinds, "FAILED"),
        "granted": "FINISHED",
    }
    assert all(
        without_markup(reason) in runs[name].data.tags["mlflow.note.content"]
        for name, reason in zip(kinds, reasons, strict=False)
    )
    assert any(reasons[0] in line for line in messages)


@pytest.mark.slow
def test_a_job_that_waits_for_the_quota_says_so_and_how_long(
    account: Account, tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(group_session, "_FULL_SECONDS", 1.0)
    harness, store = SageMakerHarness(tmp_path, account), open_store(tracking_uri)
    account.jobs.quotas = {"ml.g5.xlarge": 1}
    group = open_group(store, experiment_name="demo", verb="compare", key="k1")
    slow = {"hyperparameters": {"steps": 12, "pause": 0.5}, "instance_type": "ml.g5.xlarge"}
    jobs = [planned_as(harness.spec(TRAIN_PY, name=f"job-{n}", **slow), "none", n) for n in range(2)]
    messages: list[str] = []
    outcomes = run_jobs(store, harness.service, group, jobs, parallel=2, echo=messages.append)
    assert [outcome.failure for outcome in outcomes] == [None, None]
    quota = r"the quota 'ml\.g5\.xlarge for training job usage' \(all of it is in use\)"
    waits = [line for line in messages if re.fullmatch(rf"  none, repeat 2 has waited \d+ s for {quota}", line)]
    assert len(waits) == 1, messages
