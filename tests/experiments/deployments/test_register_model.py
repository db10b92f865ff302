"""The verb `register`, and the quality gate of `register` and `deploy`."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.__main__ import main
from experiments.deployments.endpoints import read_request, with_run
from experiments.deployments.register_model import register
from tests.support.answers import checked
from tests.support.models.made_models import modelled
from tests.support.models.place import parent
from tests.support.tracking.tracked import Tracked
from training.contract.errors import NotGoodEnough


@pytest.fixture
def tracked(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracked:
    """An empty closed group on the tracking store of this process."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    client = MlflowClient(tracking_uri)
    empty_group = Tracked(client, str(client.create_experiment("emotion", artifact_location=(tmp_path / "a").as_uri())))
    parent(empty_group)
    return empty_group


def champion(tracked: Tracked) -> str | None:
    uri = tracked.client.tracking_uri
    models = MlflowClient(uri, registry_uri=uri).search_registered_models("name = 'emotion'")
    number = models[0].aliases.get("champion") if models else None
    return str(number) if number else None


def test_the_winner_of_the_latest_group_is_registered(
    tracked: Tracked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worse = modelled(tracked, tmp_path, "job-1", accuracy=0.8)
    better = modelled(tracked, tmp_path, "job-2", accuracy=0.9)
    for run_id in (worse, better):
        tracked.client.set_tag(run_id, "mlflow.parentRunId", "")
    assert main(["register", "--experiment", "emotion"]) == 0
    output = capsys.readouterr().out
    assert output == (
        "Winner of group demo-1: The model comes from none, repeat 1: the best of its 2 jobs, eval_accuracy 0.9.\n"
        f"Registered run {better} (job-2) as version 1 of emotion, with the alias champion. "
        "Evaluation: eval_accuracy 0.9.\n"
        "Model: models:/emotion@champion\n"
    )
    assert main(["register", "--run", better, "--experiment", "demo", "--format", "json"]) == 0
    output, lines = capsys.readouterr()
    assert f"Run {better} (job-2) is already version 1 of emotion, with the alias champion." in lines
    answer = checked("register", output)
    assert (answer["model"], answer["version"], answer["is_new"]) == ("models:/emotion@champion", 1, False)


def test_a_worse_model_must_be_allowed(tracked: Tracked, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    modelled(tracked, tmp_path, "job-1", accuracy=0.9)
    assert main(["register", "--run", "job-1"]) == 0
    modelled(tracked, tmp_path, "job-2", accuracy=0.8)
    capsys.readouterr()
    assert main(["register", "--run", "job-2"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("error: Job job-2 (run ")
    assert (
        "is worse: eval_accuracy 0.8 against 0.9 of version 1 of emotion (champion). "
        "To accept it anyway, use --allow worse" in output
    )
    assert main(["register", "--run", "job-2", "--alias", "challenger"]) == 0
    assert champion(tracked) == "1"
    assert main(["register", "--run", "job-2", "--allow", "worse"]) == 0
    assert champion(tracked) == "2"
    assert "is already version 2 of emotion, with the alias champion, which was version 1 of emotion's." in (
        capsys.readouterr().out
    )


def deployed(run: str) -> str | None:
    """Return the run whose model would be deployed."""
    arguments = {"run": run}
    return with_run(arguments, read_request(arguments)[0]).run_id


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
