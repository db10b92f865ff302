"""Tracking servers without logged models, without permission for them, or unreachable."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts

from tests.conftest import TrackingServer
from tests.support.models.place import Place
from tests.support.tracking.forwarding import Forwarding
from tracking.server.store import Store

ArchiveOf = Callable[[str], Path]
NOT_FOUND = b"<!doctype html><title>404 Not Found</title>"
DENIED = b"Permission denied"


@pytest.fixture
def place_at(shared_tracking_server: TrackingServer, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    """Returns a place in a new experiment of the shared server, which is reached at another address."""
    client = MlflowClient(shared_tracking_server.uri)
    experiment_id = str(client.create_experiment(f"other servers, {tmp_path.name}"))
    yield lambda uri: Place(Store(MlflowClient(uri), retry_seconds=0.5), experiment_id, tmp_path)
    client.delete_experiment(experiment_id)


def test_an_older_server_stores_the_model_as_an_artifact_of_the_run(
    shared_tracking_server: TrackingServer, place_at: Callable[[str], Place], archive_of: ArchiveOf, model_of: ArchiveOf
) -> None:
    """A server of MLflow 2 answers with a 404 page."""
    with Forwarding(shared_tracking_server.uri, "logged-models", 404, NOT_FOUND) as proxy:
        place = place_at(proxy.url)
        run = place.run(archive_of("classification"))
        place.log(run)
        place.log(run)
    assert [message.startswith("Model logged in MLflow (3 MiB, ") for message in place.messages] == [True]
    client = MlflowClient(shared_tracking_server.uri)
    tags, uri = client.get_run(run.info.run_id).data.tags, f"runs:/{run.info.run_id}/model"
    assert tags["platform.model_artifact"] == uri
    assert "platform.model_id" not in tags
    got = Path(
        download_artifacts(artifact_uri=uri, dst_path=str(place.folder), tracking_uri=shared_tracking_server.uri)
    )
    sent = model_of("classification") / "model.safetensors"
    assert (got / "model" / "model.safetensors").read_bytes() == sent.read_bytes()
    assert "model_id: null" in (got / "MLmodel").read_text()


def test_a_refusal_of_the_artifact_store_is_reported(
    shared_tracking_server: TrackingServer, place_at: Callable[[str], Place], archive_of: ArchiveOf
) -> None:
    """The model's entry is deleted, because it would have no files."""
    with Forwarding(shared_tracking_server.uri, "mlflow-artifacts/artifacts", 403, DENIED) as proxy:
        place = place_at(proxy.url)
        run = place.run(archive_of("classification"))
        place.log(run)
    [message] = place.messages
    assert "was not logged to MLflow: The tracking server" in message
    client = MlflowClient(shared_tracking_server.uri)
    assert client.get_run(run.info.run_id).data.tags["platform.model_failure"] in message
    assert client.search_logged_models([place.experiment_id]) == []


def test_an_unreachable_server_is_waited_for_only_once(
    shared_tracking_server: TrackingServer, place_at: Callable[[str], Place], archive_of: ArchiveOf
) -> None:
    with Forwarding(shared_tracking_server.uri, "logged-models/search", 503, json.dumps({}).encode()) as proxy:
        place = place_at(proxy.url)
        place.log(*(place.run(archive_of("classification"), f"job-{at}") for at in range(3)))
        runs_read = sum(path.endswith("runs/get") for path in proxy.paths)
    [message] = place.messages
    assert message.startswith("The model of job job-0 was not logged to MLflow: The tracking server ")
    assert " has not answered for " in message
    assert runs_read == 3 + 1  # each run as it was made, and the first one to be logged
