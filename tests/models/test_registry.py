"""Registered models on a real registry: one version per model, and the alias on the latest registered one."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus

from models.registry import GATE_CHECKS, Registry, checked_alias, checked_name, registered_name
from models.trained_model import TrainedModel, trained_model
from tests.support.models.place import parent, store_of
from tests.support.tracking.forwarding import Forwarding
from tests.support.tracking.tracked import Tracked
from training.contract.errors import InputError, NotGoodEnough, TrackingError
from training.contract.plain_text import without_markup

ALL = frozenset(GATE_CHECKS)


def registry_of(client: MlflowClient) -> MlflowClient:
    """Return a client whose registry is on its own server."""
    return MlflowClient(client.tracking_uri, registry_uri=client.tracking_uri)


def logged(tracked: Tracked, name: str, accuracy: float = 0.9) -> TrainedModel:
    """Add a job whose run has an MLflow model without files, and return it."""
    run_id = tracked.job("none", metrics={"eval_accuracy": accuracy}, tags={"platform.job_name": name})
    model = tracked.client.create_logged_model(tracked.experiment_id, name="model", source_run_id=run_id)
    tracked.client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    tracked.client.set_tag(run_id, "platform.model_id", model.model_id)
    return trained_model(store_of(tracked.client), run_id)


def versions(tracked: Tracked, name: str = "emotion") -> list[tuple[int, str]]:
    matches = registry_of(tracked.client).search_model_versions(f"name = '{name}'")
    return sorted((int(each.version), each.run_id) for each in matches)


def test_a_model_is_registered_once_if_repeated(tracked: Tracked) -> None:
    store, first = store_of(tracked.client), logged(tracked, "job-1")
    made = Registry(store).register(first, "emotion", allowed=ALL)
    again = Registry(store).register(first, "emotion", allowed=ALL)
    assert (made.is_new, made.replaced) == (True, None)
    assert (again.is_new, again.replaced) == (False, None)
    assert versions(tracked) == [(1, first.run_id)]
    second = logged(tracked, "job-2")
    made = Registry(store).register(second, "emotion", allowed=ALL)
    assert str(made.version) == "version 2 of emotion"
    assert str(made.replaced) == "version 1 of emotion"
    assert versions(tracked) == [(1, first.run_id), (2, second.run_id)]
    back = Registry(store).register(first, "emotion", allowed=ALL)
    assert (back.is_new, str(back.version), str(back.replaced)) == (
        False,
        "version 1 of emotion",
        "version 2 of emotion",
    )
    assert len(versions(tracked)) == 2


def test_a_version_records_its_origin(tracked: Tracked) -> None:
    group = parent(tracked)
    tracked.client.set_tag(logged(tracked, "job-1").run_id, "mlflow.parentRunId", group)
    trained = trained_model(store_of(tracked.client), tracked.group)
    Registry(store_of(tracked.client)).register(trained, "emotion", allowed=ALL)
    client = registry_of(tracked.client)
    version = client.get_model_version_by_alias("emotion", "champion")
    assert version.run_id == trained.run_id
    assert version.tags["platform.job_name"] == "job-1"
    assert version.tags["platform.group"] == "demo-1"
    assert version.tags["platform.model"] == trained.model_uri
    assert version.tags["eval_accuracy"] == "0.9"
    for text in ("job-1", "demo-1", trained.run_id, "Evaluation: eval_accuracy 0.9.", without_markup(trained.chosen)):
        assert text in version.description
    assert "experiment emotion" in client.get_registered_model("emotion").description
    model = tracked.client.get_logged_model(str(trained.model_id))
    assert version.source == model.artifact_location


def test_the_registry_belongs_to_the_store_not_the_process(
    tracked: Tracked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", elsewhere)
    trained = logged(tracked, "job-1")
    Registry(store_of(tracked.client)).register(trained, "emotion", allowed=ALL)
    assert versions(tracked) == [(1, trained.run_id)]
    assert not (tmp_path / "elsewhere.db").exists()


def test_the_model_with_the_alias_is_in_use(tracked: Tracked) -> None:
    registry = Registry(store_of(tracked.client))
    assert registry.in_use("emotion") is None
    first, second = logged(tracked, "job-1", 0.8), logged(tracked, "job-2", 0.9)
    registry.register(first, "emotion", allowed=ALL)
    registry.register(second, "emotion", "challenger", allowed=ALL)
    champion = registry.in_use("emotion")
    assert champion
    assert (champion.trained, champion.title) == (first, "version 1 of emotion (champion)")
    assert registry.in_use("emotion", "retired") is None
    tracked.client.delete_run(first.run_id)
    champion = registry.in_use("emotion")
    assert champion
    assert champion.trained
    assert champion.trained.metrics == {"eval_accuracy": 0.8}
    client = registry_of(tracked.client)  # a version whose run was removed
    version = client.create_model_version("emotion", "file:///nowhere", "f" * 32)
    client.set_registered_model_alias("emotion", "champion", version.version)
    champion = registry.in_use("emotion")
    assert champion
    assert champion.trained is None


@pytest.mark.parametrize("kept", ["registered-models/create", "model-versions/create", "registered-models/alias"])
def test_a_repeated_command_completes_an_interrupted_one(tracked_by_server: Tracked, kept: str) -> None:
    """The command is interrupted at each of its writes in turn."""
    trained, name = logged(tracked_by_server, "job-1"), registered_name(f"broken off {kept}")
    with Forwarding(str(tracked_by_server.client.tracking_uri), kept=kept, status=503) as server:
        with pytest.raises(TrackingError):
            Registry(store_of(MlflowClient(server.url))).register(trained, name, allowed=ALL)
        assert any(kept in path for path in server.paths)
    Registry(store_of(tracked_by_server.client)).register(trained, name, allowed=ALL)
    assert versions(tracked_by_server, name) == [(1, trained.run_id)]
    assert trained_model(store_of(tracked_by_server.client), f"models:/{name}@champion") == trained
    assert trained_model(store_of(tracked_by_server.client), f"models:/{name}/1") == trained
    client = registry_of(tracked_by_server.client)
    assert client.get_registered_model(name).aliases == {"champion": "1"}


def test_a_better_model_registered_meanwhile_keeps_the_alias(tracked: Tracked) -> None:
    """Both models passed the gate when no model was in use."""
    registry = Registry(store_of(tracked.client))
    better, worse = logged(tracked, "job-1", 0.9), logged(tracked, "job-2", 0.8)
    registry.register(better, "emotion", allowed=set())
    with pytest.raises(NotGoodEnough, match=r"eval_accuracy 0\.8 against 0\.9 of version 1 of emotion \(champion\)"):
        registry.register(worse, "emotion", allowed=set())
    assert registry_of(tracked.client).get_model_version_by_alias("emotion", "champion").run_id == better.run_id
    registry.register(worse, "emotion", allowed={"worse"})
    assert registry_of(tracked.client).get_model_version_by_alias("emotion", "champion").run_id == worse.run_id


def test_a_model_that_is_an_artifact_of_its_run_is_registered(tracked: Tracked) -> None:
    """Older tracking servers have no logged models."""
    run_id = tracked.job("none", metrics={"eval_accuracy": 0.9})
    tracked.client.set_tag(run_id, "platform.model_artifact", f"runs:/{run_id}/model")
    trained = trained_model(store_of(tracked.client), run_id)
    for _ in range(2):
        Registry(store_of(tracked.client)).register(trained, "emotion", allowed=ALL)
    (version,) = registry_of(tracked.client).search_model_versions("name = 'emotion'")
    assert version.source == f"{tracked.client.get_run(run_id).info.artifact_uri}/model"


def test_a_server_without_a_registry_is_reported(tracked_by_server: Tracked) -> None:
    trained = logged(tracked_by_server, "job-1")
    with Forwarding(str(tracked_by_server.client.tracking_uri), kept="registered-models", body=b"not here") as server:
        store = store_of(MlflowClient(server.url))
        with pytest.raises(TrackingError, match=r"^The tracking server http://127.0.0.1:\d+ ") as caught:
            Registry(store).register(trained, "emotion", allowed=ALL)
    assert "\n" not in str(caught.value)


def test_names_and_aliases_are_checked(tracking_uri: str) -> None:
    client = MlflowClient(tracking_uri, registry_uri=tracking_uri)
    for experiment, name in (
        ("emotion", "emotion"),
        ('nlp/it\'s a "name":v2', "nlp-it-s a -name-v2"),
        ("Übung_1.5", "Übung_1.5"),
        ("../..", "model"),
        ("x" * 300, "x" * 200),
    ):
        assert registered_name(experiment) == checked_name(name) == name
        client.create_registered_model(name)
        assert client.search_registered_models(f"name = '{name}'")[0].name == name
    with pytest.raises(InputError, match=r"name is 'a/b': a registered model's name must have .*, such as 'a-b'\."):
        checked_name("a/b")
    for alias in ("", "latest", "v1", "a b", "a" * 256):
        with pytest.raises(InputError, match="alias is '"):
            checked_alias(alias)
    client.create_model_version("emotion", "file:///x", "f" * 32)
    for alias in ("the-next_1", "a" * 255, "vX"):
        client.set_registered_model_alias("emotion", checked_alias(alias), "1")
