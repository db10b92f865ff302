"""Five launchers from two state folders follow the same groups: each job trains once and has one run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.conftest import TrackingServer
from tests.support.tracking.followers import followers
from training.services.local.service import LocalService

HOMES = ("first", "first", "first", "second", "second")
JOBS = 4
STEPS = [1, 2, 3, 4, 5]
ROUNDS = 10
WITHIN_SECONDS = 1.5
"""In every second round, the launchers begin at random moments of this time. In the others, they begin together."""


@pytest.mark.slow
@pytest.mark.parametrize("store", ["SQLite", "a server"])
def test_five_followers(request: pytest.FixtureRequest, tracking_uri: str, tmp_path: Path, store: str) -> None:
    server: TrackingServer | None = request.getfixturevalue("tracking_server") if store == "a server" else None
    uri = server.uri if server else tracking_uri
    client, service, faults = MlflowClient(uri), LocalService(tmp_path / "service"), []
    logs = [tmp_path / f"follower-{number}.txt" for number in range(len(HOMES))]
    with followers(tmp_path, uri, HOMES, JOBS) as launchers:
        for number in range(ROUNDS):
            answers = launchers.follow(f"k{number}", within_seconds=WITHIN_SECONDS * (number % 2))
            faults += [answer for answer in answers if not answer.endswith(f" {JOBS}")]
            trained = [job["TrainingJobName"] for job in service.jobs()]
            groups = {answer.split()[1] for answer in answers if answer.startswith("done ")}
            faults += [f"{group} is {fault}" for group in groups for fault in faults_of(client, trained, group)]
    assert faults == []
    assert not any("Traceback (most recent call last)" in log.read_text() for log in logs)


def faults_of(client: MlflowClient, trained: list[str], group: str) -> list[str]:
    """Return `lost` if a job, a run or a point of a group is missing, and `doubled` if one exists twice."""
    names = [f"{group}-{number}" for number in range(JOBS)]
    own = [run for run in _runs(client, "job") if run.data.tags["platform.group"] == group]
    points = {run.info.run_id: client.get_metric_history(run.info.run_id, "loss") for run in own}
    steps = [[point.step for point in points[run.info.run_id]] for run in own]
    runs = Counter(str(run.data.tags["platform.job_name"]) for run in own)
    jobs = Counter(name for name in trained if name.startswith(f"{group}-"))
    groups = [run for run in _runs(client, "group") if run.data.tags["platform.group"] == group]
    lost = not {*names} <= {*runs} & {*jobs} or not groups or any({*STEPS} - {*each} for each in steps)
    lost = lost or any(run.info.status != "FINISHED" for run in own)
    doubled = max((*runs.values(), *jobs.values(), len(groups))) > 1 or any(len(each) > len(STEPS) for each in steps)
    return [name for name, is_so in (("lost", lost), ("doubled", doubled)) if is_so]


def _runs(client: MlflowClient, kind: str) -> list[Run]:
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'", max_results=5000))
