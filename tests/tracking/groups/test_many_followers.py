"""Several launchers follow the same group: each job trains once and has one run, with each point once."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.conftest import TrackingServer
from tests.support.tracking.followers import followers
from training.services.local.service import LocalService

HOMES = ("first", "first", "first", "second", "second")
JOBS = 4
ROUNDS = 10


@pytest.mark.slow
def test_five_followers_over_sqlite(tracking_uri: str, tmp_path: Path) -> None:
    follow_and_check(tmp_path, tracking_uri)


@pytest.mark.slow
def test_five_followers_over_a_server(tracking_server: TrackingServer, tmp_path: Path) -> None:
    follow_and_check(tmp_path, tracking_server.uri)


def follow_and_check(folder: Path, uri: str) -> None:
    with followers(folder, uri, HOMES, JOBS) as launchers:
        for number in range(ROUNDS):
            # In every second round, all launchers open the group at the same moment.
            answers = launchers.follow(f"k{number}", within_seconds=1.5 * (number % 2))
            assert all(answer.endswith(f" {JOBS}") for answer in answers), answers
    client = MlflowClient(uri)
    groups = {str(run.data.tags["platform.group"]) for run in runs(client, "group")}
    assert len(groups) >= ROUNDS
    by_group = {
        group: [run for run in runs(client, "job") if run.data.tags["platform.group"] == group] for group in groups
    }
    trained = [job["TrainingJobName"] for job in LocalService(folder / "service").jobs()]
    for group, own in by_group.items():
        names = sorted(f"{group}-{number}" for number in range(JOBS))
        assert sorted(run.data.tags["platform.job_name"] for run in own) == names
        assert sorted(name for name in trained if name.startswith(f"{group}-")) == names
        for run in own:
            assert run.info.status == "FINISHED"
            points = client.get_metric_history(run.info.run_id, "loss")
            assert [point.step for point in points] == [1, 2, 3, 4, 5]
    assert len(trained) == len(groups) * JOBS


def runs(client: MlflowClient, kind: str) -> list[Run]:
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'"))
