"""`register` on a team server with PostgreSQL and accounts: who may register, and errors for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from mlflow import MlflowClient

from tests.support.models.made_models import modelled
from tests.support.tracking.team import Team
from tests.support.tracking.tracked import Tracked
from tests.team_server.conftest import Person, administer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def run_id(admin: MlflowClient, tmp_path: Path) -> str:
    """A job of the administrator in the experiment `shared`, with its model."""
    experiment = admin.get_experiment_by_name("shared")
    assert experiment
    return modelled(Tracked(admin, experiment.experiment_id), tmp_path, f"job-{uuid4().hex}")


def aliases(admin: MlflowClient, name: str) -> dict[str, str]:
    client = MlflowClient(admin.tracking_uri, registry_uri=admin.tracking_uri)
    return {key: str(value) for key, value in client.get_registered_model(name).aliases.items()}


def test_a_member_registers(team: Team, person: Callable[..., Person], admin: MlflowClient, run_id: str) -> None:
    ada = person("ada")
    for message in ("as version 1 of ada-s model", "is already version 1 of ada-s model"):
        done = ada("register", {"run": run_id, "name": "ada-s model"})
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert message in done.stdout
    assert aliases(admin, "ada-s model") == {"champion": "1"}
    keys = team.artifacts.keys()
    assert any("/models/m-" in key and key.endswith("model/model.safetensors") for key in keys)


def test_users_without_permission_cannot_register_or_change_a_model(
    person: Callable[..., Person], admin: MlflowClient, run_id: str
) -> None:
    """The robot may read the registered model of another user."""
    assert person("ada")("register", {"run": run_id, "name": "readable"}).returncode == 0
    may = {"resource_type": "registered_model", "resource_id": "readable", "permission": "READ"}
    administer(admin, "3.0/mlflow/users/permissions/grant", username="robot", **may)
    for name, model, message in (
        ("guest", "guest-s model", "create registered model 'guest-s model' (403): the right to create"),
        ("robot", "readable", "write to registered model 'readable' (403): the permission EDIT on it is missing"),
    ):
        done = person(name)("register", {"run": run_id, "name": model, "alias": "mine"})
        assert done.returncode == 1, done.stdout
        assert f"does not let user '{name}' {message}" in done.stderr
        assert done.stderr.count("\n") == 1
    assert aliases(admin, "readable") == {"champion": "1"}
