"""The team server, started once for all tests of this folder, and its users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import http_request_safe

from tests.end_to_end.conftest import CommandLine
from tests.end_to_end.conftest import reviews as reviews
from tests.support.tracking.managed_script import EXPERIMENT, SCRIPT
from tests.support.tracking.team import ADMIN, PASSWORD, Team, open_team


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A running server with the accounts of docs/server.md (ada, guest, robot) and an experiment `shared`."""
    with open_team(tmp_path_factory.mktemp("team")) as opened:
        yield opened


@dataclass(frozen=True)
class Person(CommandLine):
    """The command line of a user."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that they set."""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | self.variables


@pytest.fixture
def person(team: Team, tmp_path: Path) -> Callable[..., Person]:
    """Return a function that makes the command line of a user, with a separate home."""

    def made(name: str, **variables: str) -> Person:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return Person(folder, team.uri, team.as_user(name) | variables)

    return made


@pytest.fixture
def admin(team: Team, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    """The administrator's client. This process has the administrator's variables."""
    for name, value in team.as_user(*ADMIN).items():
        monkeypatch.setenv(name, value)
    return MlflowClient(team.uri)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """An experiment with two arms of a short script. The MLflow experiment has the name of this test's folder."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    experiment = tmp_path / f"{tmp_path.name}.yaml"
    experiment.write_text(EXPERIMENT)
    return experiment


def runs_of(client: MlflowClient, experiment_name: str, kind: str = "job") -> list[Run]:
    """Return the runs of a kind in an MLflow experiment, oldest first. Empty if the experiment does not exist."""
    experiment = client.get_experiment_by_name(experiment_name)
    where, order = f"tags.\"platform.kind\" = '{kind}'", ["attributes.start_time ASC"]
    return list(client.search_runs([experiment.experiment_id], where, order_by=order)) if experiment else []


def administer(client: MlflowClient, call: str, **body: Any) -> dict[str, Any]:
    """Return the server's response to a call of the administrator."""
    creds = get_default_host_creds(client.tracking_uri)
    answer: dict[str, Any] = http_request_safe(creds, f"/api/{call}", "POST", json=body).json()
    return answer


def create_user(client: MlflowClient, name: str) -> None:
    """Create an account without any permission."""
    administer(client, "2.0/mlflow/users/create", username=name, password=PASSWORD)
