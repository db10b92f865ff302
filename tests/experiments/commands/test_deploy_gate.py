"""The registered model with which `deploy` compares the requested one."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.deployments.deploy_model import read_spec, with_run
from experiments.deployments.register_model import register
from tests.support.models.made_models import modelled
from tests.support.models.place import parent
from tests.support.tracking.tracked import Tracked
from training.contract.errors import NotGoodEnough


@pytest.fixture
def tracked(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracked:
    """An empty closed group of the experiment `emotion`, on the tracking store of this process."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    client = MlflowClient(tracking_uri)
    empty_group = Tracked(client, str(client.create_experiment("emotion", artifact_location=(tmp_path / "a").as_uri())))
    parent(empty_group)
    return empty_group


def deployed(run: str) -> str | None:
    """Return the run whose model would be deployed."""
    arguments = {"run": run}
    return with_run(arguments, read_spec(arguments, "local")).run_id


def test_a_registered_model_is_compared_with_its_own_versions(tracked: Tracked, tmp_path: Path) -> None:
    worse = modelled(tracked, tmp_path, "job-1", accuracy=0.8)
    better = modelled(tracked, tmp_path, "job-2", accuracy=0.9)
    register({"run": worse, "name": "mine"})
    register({"run": better, "name": "mine"})
    with pytest.raises(NotGoodEnough, match=r"eval_accuracy 0\.8 against 0\.9 of version 2 of mine \(champion\)"):
        deployed("models:/mine/1")
    assert deployed("models:/mine@champion") == better
    # By its own name a run is compared with the model of its experiment, which is another.
    assert deployed(worse) == worse
    best = modelled(tracked, tmp_path, "job-3", accuracy=0.95)
    register({"run": best})
    assert deployed(" models:/mine@champion ") == better
    with pytest.raises(NotGoodEnough, match=r"of version 1 of emotion \(champion\)"):
        deployed(better)
