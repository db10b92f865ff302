"""Small trained models, each created once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.models.made_models import model_folder, packed
from tests.support.models.place import Place
from tracking.server.store import open_store


@pytest.fixture(scope="session")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder of a model of the given kind."""
    made: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in made:
            made[kind] = model_folder(tmp_path_factory.mktemp(kind), kind)
        return made[kind]

    return find


@pytest.fixture(scope="session")
def archive_of(tmp_path_factory: pytest.TempPathFactory, model_of: Callable[[str], Path]) -> Callable[[str], Path]:
    """Returns the artifact of a job that trained a model of the given kind."""
    folder = tmp_path_factory.mktemp('a folder\'s "name" é')
    return lambda kind: packed(model_of(kind), folder / kind / "model.tar.gz")


@pytest.fixture
def client(tracking_uri: str) -> MlflowClient:
    """A tracking store for one test, with experiment `models` and its artifacts in the test's folder."""
    return MlflowClient(tracking_uri)


@pytest.fixture
def experiment_id(client: MlflowClient, tmp_path: Path) -> str:
    location = (tmp_path / "ärtifacts 100%").as_uri()
    return str(client.create_experiment("models", artifact_location=location))


@pytest.fixture
def place(client: MlflowClient, experiment_id: str, tmp_path: Path) -> Place:
    return Place(open_store(str(client.tracking_uri)), experiment_id, tmp_path)
