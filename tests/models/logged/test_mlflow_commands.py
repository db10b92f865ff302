"""MLflow's own commands on a logged model, as a user types them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from tests.support.models.made_models import LABELS
from tests.support.models.place import Place
from tests.support.models.served import served, variables

PYENV = shutil.which("pyenv")
SENTENCE = "Winter is coming and it will be dark soon."


@pytest.fixture
def address(place: Place, archive_of: Callable[[str], Path]) -> str:
    """The address of a logged model by its run."""
    run = place.run(archive_of("classification"))
    place.log(run)
    return f"runs:/{run.info.run_id}/model"


def typed(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `mlflow` in an empty folder, without our packages on the path."""
    folder = place.folder / "typed"
    folder.mkdir()
    return subprocess.run(
        ["mlflow", *words], cwd=folder, env=variables(place), capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.skipif(not PYENV, reason="MLflow's default environment manager needs pyenv")
def test_the_printed_command_serves_the_model_in_a_new_environment(place: Place, address: str) -> None:
    [printed] = [message.partition("`")[2].rstrip("`") for message in place.messages]
    assert printed == f"mlflow models serve -m {address}"
    environments = place.folder / "environments"
    with served(place, address, options=(), more_variables={"MLFLOW_ENV_ROOT": str(environments)}) as ask:
        status, [answer] = ask({"inputs": SENTENCE})
        assert status == 200
        assert answer["label"] in LABELS
    assert len(list(environments.glob("*/bin/python"))) == 1


@pytest.mark.slow
def test_a_file_is_predicted(place: Place, address: str) -> None:
    source, target = place.folder / "input.json", place.folder / "output.json"
    source.write_text(json.dumps({"inputs": [SENTENCE, "b"]}))
    done = typed(
        place, "models", "predict", "-m", address, "-i", str(source), "-o", str(target), "--env-manager", "local"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads(target.read_text())["predictions"]
    assert [answer["label"] in LABELS for answer in answers] == [True, True]


@pytest.mark.slow
def test_the_files_of_the_image_are_written(place: Place, address: str) -> None:
    """`build-docker` writes the same files, and then calls Docker."""
    target = place.folder / "image"
    done = typed(place, "models", "generate-dockerfile", "-m", address, "-d", str(target))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mlflow" in (target / "Dockerfile").read_text()
    assert list(target.rglob("python_env.yaml"))


@pytest.mark.filterwarnings("ignore:.*type hint is inferred as AnyType")  # of a class of MLflow, as it is imported
def test_the_model_is_loaded_in_python(place: Place, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(place.client.tracking_uri))
    model = mlflow.pyfunc.load_model(address)
    answers = model.predict(pd.DataFrame({"text": [SENTENCE, "b"]}))
    assert set(answers["label"]) <= set(LABELS)
    assert mlflow.pyfunc.get_model_dependencies(address, format="conda").endswith("conda.yaml")
